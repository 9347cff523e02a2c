package options

import (
	"bytes"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func verifyOptions(config *tls.Config) x509.VerifyOptions {
	return x509.VerifyOptions{Roots: config.RootCAs, DNSName: "example.com"}
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
		{"after the end of flags", "-- --loop false", "-- --loop false"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, strings.Fields(tt.want), Normalize(strings.Fields(tt.in)))
		})
	}
}

func TestLogger(t *testing.T) {
	tests := []struct {
		name string
		log  Log
		want string // what a warning begins with
	}{
		{"text", Log{Level: slog.LevelInfo}, "time="},
		{"json", Log{Level: slog.LevelWarn, JSON: true}, "{"},
		{"too severe a level", Log{Level: slog.LevelError}, ""},
		{"none", Log{Level: silent}, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var out bytes.Buffer
			tt.log.Logger(&out).Warn("careful")
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
