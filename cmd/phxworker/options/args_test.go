package options

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func verifyOptions(config *tls.Config) x509.VerifyOptions {
	return x509.VerifyOptions{Roots: config.RootCAs, DNSName: "example.com"}
}

// Guards against a flag that is taken for the opposite of one that is not there.
func TestAFlagThatBeginsWithNo(t *testing.T) {
	for _, args := range [][]string{{"--no-stringify-state"}, {"--no-stringify-state=true"}, {"--no-stringify-state", "true"}} {
		require.True(t, parse(t, args...).Bool("no-stringify-state"))
	}
	require.False(t, parse(t, "--no-stringify-state", "false").Bool("no-stringify-state"))
}

// Guards against credentials that stay in states, and so reach Lightning: ws-worker adds up the words of a list that
// is written twice.
func TestAListThatIsWrittenTwiceAddsUp(t *testing.T) {
	for _, args := range [][]string{
		{"--state-props-to-remove", "configuration", "--state-props-to-remove", "response"},
		{"--state-props-to-remove=configuration", "--capacity", "2", "--state-props-to-remove=response"},
	} {
		require.Equal(t, []string{"configuration", "response"}, read(t, environment{"WORKER_SECRET": "s"}, args...).Engine.StateProps)
	}
}

func TestNormalize(t *testing.T) {
	tests := []struct {
		name, in, want string
	}{
		{"nothing to do", "start -s x --capacity 5", "start -s x --capacity 5"},
		{"list of words", "--state-props-to-remove a b --log debug", "--state-props-to-remove a,b --log debug"},
		{"list at the end", "--state-props-to-remove a b", "--state-props-to-remove a,b"},
		{"list without words", "--state-props-to-remove", "--state-props-to-remove"},
		{"list with commas", "--state-props-to-remove=a,b c", "--state-props-to-remove=a,b c"},
		{"toggle with a word", "--loop false --profile true", "--loop=false --profile=true"},
		{"toggle without", "--loop --capacity 5", "--loop --capacity 5"},
		{"text that looks like one", "--secret false", "--secret false"},
		{"inverse toggle", "--no-loop true", "--no-loop true"},
		{"toggle that is set to a word", "--loop=no --claim-all=ON --mock=1 --profile=0", "--loop=false --claim-all=true --mock=true --profile=false"},
		{"toggle that is set to nothing", "--loop= --claim-all= --mock", "--mock"},
		{"value that begins with a dash", "-s -secret --capacity -1", "-s -secret --capacity -1"},
		{"value that is an option", "--secret=-l -l mock", "--secret=-l -l mock"},
		{"after the end of flags", "-- --loop false", "-- --loop false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args, err := Normalize(strings.Fields(tt.in))
			require.NoError(t, err)
			require.Equal(t, strings.Fields(tt.want), args)
		})
	}
}

// Guards against an option that takes the next one for its value, and leaves a
// puzzling complaint about a word that is left over.
func TestNormalizeFindsMissingValues(t *testing.T) {
	for in, want := range map[string]string{
		"--capacity -l URL":            "--capacity has no value: -l after it is another option; if it is meant as the value, write --capacity=-l",
		"-s --capacity=5":              "-s has no value: --capacity after it is another option; if it is meant as the value, write -s=--capacity",
		"--state-props-to-remove -l x": "--state-props-to-remove has no value: -l after it is another option; if it is meant as the value, write --state-props-to-remove=-l",
		"start --workloops --no-loop":  "--workloops has no value: --no-loop after it is another option; if it is meant as the value, write --workloops=--no-loop",
	} {
		_, err := Normalize(strings.Fields(in))
		require.EqualError(t, err, want)
	}
}

// Guards against --no-loop=false, which switched the loop off.
func TestNormalizeRefusesWordsThatAreNoToggles(t *testing.T) {
	for in, want := range map[string]string{
		"--loop=perhaps":       `--loop "perhaps" is neither on nor off: write true, false, yes, no, on, off, 1 or 0`,
		"start --claim-all=t":  `--claim-all "t" is neither on nor off: write true, false, yes, no, on, off, 1 or 0`,
		"--no-loop=false":      "--no-loop takes no value: write --no-loop alone, or --loop",
		"--no-batch-logs=true": "--no-batch-logs takes no value: write --no-batch-logs alone, or --batch-logs",
		"--no-mock=":           "--no-mock takes no value: write --no-mock alone, or --mock",
	} {
		_, err := Normalize(strings.Fields(in))
		require.EqualError(t, err, want)
	}
}

func TestLogHandler(t *testing.T) {
	tests := []struct {
		name     string
		log      Log
		terminal bool
		want     string // what a warning begins with
	}{
		{"text", Log{Format: "text"}, false, "time="},
		{"json", Log{Level: slog.LevelWarn, Format: "json"}, true, "{"},
		{"auto on a terminal", Log{Format: "auto"}, true, "time="},
		{"auto elsewhere", Log{Format: "auto"}, false, "{"},
		{"too severe a level", Log{Level: slog.LevelError}, false, ""},
		{"none", Log{Level: silent}, false, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			slog.New(tt.log.Handler(&out, tt.terminal)).Warn("careful")
			require.Equal(t, tt.want != "", out.Len() > 0)
			require.True(t, strings.HasPrefix(out.String(), tt.want))
		})
	}
}

func TestParseLevel(t *testing.T) {
	for name, want := range map[string]slog.Level{
		"debug": slog.LevelDebug, "info": slog.LevelInfo, "WARN": slog.LevelWarn, "error": slog.LevelError,
		"none": silent, "default": slog.LevelInfo, "success": slog.LevelInfo,
	} {
		level, ok := ParseLevel(name)
		require.True(t, ok, name)
		require.Equal(t, want, level, name)
	}
	_, ok := ParseLevel("loud")
	require.False(t, ok)
}

func TestHelpFitsTheTerminalAndNamesEverything(t *testing.T) {
	help := Help()
	for line := range strings.Lines(help) {
		require.Less(t, len(line), 82, line)
	}
	for _, o := range Table() {
		require.Contains(t, help, o.Name())
	}
}

func TestDurationsAreReadableInJSON(t *testing.T) {
	var out bytes.Buffer
	slog.New(Log{Format: "json"}.Handler(&out, false)).Info("done", "took", 1500*time.Millisecond, "n", 3)
	require.Contains(t, out.String(), `"took":"1.5s","n":3}`)
}
