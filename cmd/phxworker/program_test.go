package main

import (
	"bytes"
	"context"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/cmd/phxworker/options"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// execute runs the program to its end, with the arguments and variables.
func execute(ctx context.Context, env map[string]string, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	p := &program{getenv: func(name string) string { return env[name] }, stdout: &out, stderr: &errs, abort: context.Background()}
	code = p.run(ctx, append([]string{"phxworker"}, args...))
	return code, out.String(), errs.String()
}

func TestBadInputIsOneLineAndExitCode2(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		args []string
		want string
	}{
		{"unknown option", nil, []string{"--bogus"}, "unknown option --bogus; see phxworker start --help"},
		{"unknown option of start", nil, []string{"start", "-z"}, "unknown option -z; see phxworker start --help"},
		{"unknown option of demo", nil, []string{"demo", "--bogus"}, "unknown option --bogus; see phxworker demo --help"},
		{"unknown command", nil, []string{"bogus"}, `unknown command or argument "bogus"; see phxworker --help`},
		{"argument too many", nil, []string{"start", "-s", "x", "now"}, `unknown command or argument "now"; see phxworker --help`},
		{"option without value", nil, []string{"--secret"}, "flag needs an argument: --secret; see phxworker start --help"},
		{"no secret", nil, nil, "no secret: set --secret or WORKER_SECRET to the secret that the server knows its workers by"},
		{"malformed group", map[string]string{"WORKER_WORKLOOPS": "fast-lane:1"}, []string{"-l", "mock"}, `slot group "fast-lane:1": "fast-lane" is not a queue name; use letters, digits and "_", ">" between queues and a space between groups`},
		{"group without slots", nil, []string{"-l", "mock", "--queues", "manual"}, `slot group "manual": the number of slots is missing; write it after a colon, with no space before it: "manual:1"`},
		{"capacity and groups", nil, []string{"-l", "mock", "--capacity", "3", "--workloops", "a:1"}, "--capacity and --workloops exclude each other: keep one of them"},
		{"back-off", nil, []string{"-l", "mock", "--backoff", "1-10"}, `--backoff "1-10" is not a back-off: write the shortest and the longest pause in seconds, such as 1/10`},
		{"public key", nil, []string{"-l", "mock", "--lightning-public-key", "?"}, "public key for run tokens: it is neither PEM nor base64: illegal base64 data at input byte 0; give the RSA public key as PEM, or that PEM in base64 (Lightning's WORKER_LIGHTNING_PUBLIC_KEY)"},
		{"CA file", nil, []string{"-l", "mock", "--ca-file", "no.pem"}, "--ca-file cannot be read: open no.pem: no such file or directory"},
		{"engine", nil, []string{"-l", "mock", "--engine", "openfn"}, `--engine "openfn" is not known: write js`},
		{"level of the demo", nil, []string{"demo", "--log", "loud"}, "--log is not a level: write debug, info, warn, error or none"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			code, stdout, stderr := execute(t.Context(), tt.env, tt.args...)
			require.Equal(t, exitUsage, code)
			require.Empty(t, stdout)
			require.Equal(t, "phxworker: "+tt.want+"\n", stderr)
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	for args, want := range map[string]string{
		"--help":       "phxworker [start] [options]",
		"-h":           "phxworker [start] [options]",
		"start --help": "--workloops GROUPS",
		"demo --help":  "--keep",
		"--version":    "phxworker version ",
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
