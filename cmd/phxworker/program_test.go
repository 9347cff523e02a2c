package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/options"
)

// ofTests is the folder of this test program: for the binary, and for the tokens of workers.
var ofTests string

func shippedBinary() string { return filepath.Join(ofTests, "bin", "phxworker") } // beside the folder of tokens, which has the same name

func TestMain(m *testing.M) {
	if os.Getenv("HOME") == "" { // where the folder for adaptors would be
		_ = os.Setenv("HOME", os.TempDir())
	}
	var err error
	if ofTests, err = os.MkdirTemp("", "phxworker-test-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(ofTests)
		os.Exit(code)
	}))
}

// getenv returns a variable, and of those that no test sets the folder for tokens.
func getenv(env map[string]string, name string) string {
	if value, ok := env[name]; ok || name != "XDG_RUNTIME_DIR" {
		return value
	}
	return ofTests
}

// environ returns the variables as a process has them.
func environ(env map[string]string) (entries []string) {
	for name, value := range env {
		entries = append(entries, name+"="+value)
	}
	return entries
}

// execute runs the program to its end, with the arguments and variables.
func execute(ctx context.Context, env map[string]string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := &program{getenv: func(name string) string { return getenv(env, name) }, environ: environ(env), stdout: &out, stderr: &errs, abort: context.Background()}
	code = p.run(ctx, append([]string{"phxworker"}, args...))
	return code, out.String(), errs.String()
}

// requireUsageError asserts that the program does nothing with its arguments but
// say, in one line, what is wrong with them.
func requireUsageError(t *testing.T, want string, env map[string]string, args ...string) {
	t.Helper()
	code, stdout, stderr := execute(t.Context(), env, args...)
	require.Equal(t, exitUsage, code)
	require.Empty(t, stdout)
	require.Equal(t, "phxworker: "+want+"\n", stderr)
}

func TestBadInputIsOneLineAndExitCode2(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"unknown option", nil, []string{"--bogus"}, "unknown option --bogus; known are those of ws-worker up to 1.29.2, and this worker's own; see phxworker start --help"},
		{"unknown option of start", nil, []string{"start", "-z"}, "unknown option -z; known are those of ws-worker up to 1.29.2, and this worker's own; see phxworker start --help"},
		{"unknown option of demo", nil, []string{"demo", "--bogus"}, "unknown option --bogus; see phxworker demo --help"},
		{"unknown command", nil, []string{"bogus"}, `unknown command or argument "bogus"; see phxworker --help`},
		{"mistyped command", nil, []string{"staus"}, `unknown command or argument "staus": did you mean status? see phxworker --help`},
		{"command with swapped letters", nil, []string{"strat"}, `unknown command or argument "strat": did you mean start? see phxworker --help`}, //nolint:misspell // on purpose
		{"command behind options", nil, []string{"-l", "mock", "start"}, "the command comes first: write phxworker start, and options behind it; see phxworker --help"},
		{"another command behind options", nil, []string{"--log", "debug", "status"}, "the command comes first: write phxworker status, and options behind it; see phxworker --help"},
		{"empty argument", nil, []string{"-l", "mock", ""}, `unknown command or argument ""; see phxworker --help`},
		{"list without value", nil, []string{"--state-props-to-remove", "-l", "mock"}, "--state-props-to-remove has no value: -l after it is another option; if it is meant as the value, write --state-props-to-remove=-l"},
		{"mistyped command of adaptors", nil, []string{"adaptors", "instal"}, `unknown command or argument "instal": did you mean install? see phxworker --help`},
		{"toggle both ways", nil, []string{"-l", "mock", "--no-loop", "--loop"}, "--loop and --no-loop exclude each other: keep one of them"},
		{"toggle of a control with a word", nil, []string{"drain", "--wait=perhaps"}, `--wait "perhaps" is neither true nor false; see phxworker drain --help`},
		{"toggle with a word", nil, []string{"-l", "mock", "--loop=perhaps"}, `--loop "perhaps" is neither on nor off: write true, false, yes, no, on, off, 1 or 0`},
		{"argument too many", nil, []string{"start", "-s", "x", "now"}, `unknown command or argument "now"; see phxworker --help`},
		{"mistyped option", nil, []string{"--capcity", "5"}, "unknown option --capcity: did you mean --capacity? known are those of ws-worker up to 1.29.2, and this worker's own; see phxworker start --help"},
		{"mistyped option of run alone", nil, []string{"run", "job.js", "--adapter", "http"}, "unknown option --adapter: did you mean --adaptor? see phxworker run --help"},
		{"mistyped option that the command does not have", nil, []string{"demo", "--capcity", "5"}, "unknown option --capcity; see phxworker demo --help"},
		{"option without value", nil, []string{"--secret"}, "--secret has no value; see phxworker start --help"},
		{"option that takes another for its value", nil, []string{"--capacity", "-l", "ws://x.test/worker"}, "--capacity has no value: -l after it is another option; if it is meant as the value, write --capacity=-l"},
		{"help on what is not there", nil, []string{"help", "bogus"}, `there is no command "bogus"; see phxworker --help`},
		{"argument of version", nil, []string{"version", "now"}, `unknown command or argument "now"; see phxworker --help`},
		{"argument of config", nil, []string{"config", "now"}, `unknown command or argument "now"; see phxworker --help`},
		{"no secret", nil, nil, "no secret: set WORKER_SECRET to the secret that the server knows its workers by, or --secret-file to a file with it"},
		{"malformed group", map[string]string{"WORKER_WORKLOOPS": "fast-lane:1"}, []string{"-l", "mock"}, `WORKER_WORKLOOPS: slot group "fast-lane:1": "fast-lane" is not a queue name; use letters, digits and "_", ">" between queues and a space between groups`},
		{"group without slots", nil, []string{"-l", "mock", "--queues", "manual"}, `--queues: slot group "manual": the number of slots is missing; write it after a colon, with no space before it: "manual:1"`},
		{"capacity and groups", nil, []string{"-l", "mock", "--capacity", "3", "--workloops", "a:1"}, "--capacity and --workloops exclude each other: keep one of them"},
		{"back-off", nil, []string{"-l", "mock", "--backoff", "1-10"}, `--backoff "1-10" is not a back-off: write the shortest and the longest pause in seconds, such as 1/10`},
		{"public key", nil, []string{"-l", "mock", "--lightning-public-key", "?"}, "--lightning-public-key: public key for run tokens: it is neither PEM nor base64: illegal base64 data at input byte 0; give the RSA public key as PEM, or that PEM in base64 (Lightning's WORKER_LIGHTNING_PUBLIC_KEY)"},
		{"CA file", nil, []string{"-l", "mock", "--ca-file", "no.pem"}, "--ca-file cannot be read: open no.pem: no such file or directory"},
		{"address of Sentry", map[string]string{"WORKER_SENTRY_DSN": "https://hidden@sentry.test"}, []string{"-l", "mock"}, "WORKER_SENTRY_DSN is not a Sentry DSN: copy it from the project's settings, it is like https://KEY@sentry.example.org/1"},
		{"engine", nil, []string{"-l", "mock", "--engine", "opnfn"}, `--engine "opnfn" is not known: write auto, js, openfn, or a command whose program is there`},
		{"level of the demo", nil, []string{"demo", "--log", "loud"}, "--log is not a level: write debug, info, warn, error or none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requireUsageError(t, tt.want, tt.env, tt.args...)
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for args, want := range map[string]string{
		"--help":                "phxworker [start] [options]",
		"-h":                    "phxworker [start] [options]",
		"start --help":          "--workloops GROUPS",
		"demo --help":           "--keep",
		"help":                  "phxworker [start] [options]",
		"help start":            "--workloops GROUPS",
		"help config":           "Usage: phxworker config [options]",
		"help adaptors install": "phxworker adaptors install [--force] [--repo-dir DIR]",
		"config --help":         "Usage: phxworker config [options]",
		"--version":             "phxworker version dev (",
		"version":               "phxworker version dev (",
	} {
		t.Run(args, func(t *testing.T) {
			code, stdout, stderr := execute(t.Context(), nil, strings.Fields(args)...)
			require.Equal(t, exitOK, code)
			require.Contains(t, stdout, want)
			require.Empty(t, stderr)
		})
	}
}

func TestOptionsPageIsUpToDate(t *testing.T) {
	page, err := os.ReadFile("OPTIONS.md")
	require.NoError(t, err)
	require.Equal(t, options.Markdown(), string(page), `run "go generate ./cmd/phxworker"`)
}

// An engine that can never execute anything is no failure that may pass.
func TestTheExitCodeOfAWorkerThatCannotExecute(t *testing.T) {
	require.Equal(t, exitUsage, exitCode(fmt.Errorf("phxworker: %w: open /repo: permission denied", phxworker.ErrUnable)))
	require.Equal(t, exitFailure, exitCode(phxworker.ErrTooManyErrors))
}
