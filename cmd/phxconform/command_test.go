package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		_ = os.RemoveAll(ofBinary)
		os.Exit(code)
	}))
}

func execute(ctx context.Context, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = run(ctx, append([]string{"phxconform"}, args...), &out, &errs)
	return code, out.String(), errs.String()
}

func write(t *testing.T, text string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	return name
}

func TestExitCodes(t *testing.T) {
	interrupted, cancel := context.WithCancelCause(t.Context())
	cancel(suite.ErrInterrupted)
	for _, test := range []struct {
		name   string
		ctx    context.Context
		args   []string
		code   int
		stdout string
		stderr string
	}{
		{name: "help", args: nil, stdout: "tries a Lightning worker"},
		{name: "help, asked for by its name", args: []string{"help"}, stdout: "tries a Lightning worker"},
		{name: "help of a mode", args: []string{"help", "server"}, stdout: "those that begin with it: S4.2, S4;"},
		{name: "help of no mode", args: []string{"help", "sing"}, code: 2, stderr: `there is no mode "sing"`},
		{name: "half a patience", args: []string{"worker", "--patience", "1.5", "--", "true"}, code: 2, stderr: `invalid value "1.5" for flag -patience: it has to be a whole number, such as 3 (see`},
		{name: "a report to stdout", args: []string{"worker", "--json", "-", "--", "true"}, code: 2, stderr: "--json writes into a file, and not to stdout: name one"},
		{name: "a report without a name", args: []string{"worker", "--json", "--", "true"}, code: 2, stderr: `--json needs the name of a file, and "--" looks like an option`},
		{name: "two reports in one file", args: []string{"worker", "--json", "a/../x", "--html", "./x", "--", "true"}, code: 2, stderr: "--json and --html would write into the same file: x"},
		{name: "a report of a list", args: []string{"server", "--list", "--junit", "x"}, code: 2, stderr: "--list tries no case, so there is no report for --junit"},
		{name: "a list", args: []string{"worker", "--list", "--case", "W5.1"}, stdout: "W5.1   must   an idle worker ends at SIGTERM, with exit code 0\n       It is killed half a minute later otherwise"},
		{name: "no mode", args: []string{"sing"}, code: 2, stderr: `there is no mode "sing"`},
		{name: "no command", args: []string{"worker"}, code: 2, stderr: "there is no command"},
		{name: "an unknown option", args: []string{"worker", "--loud"}, code: 2, stderr: "-loud"},
		{name: "an unknown case", args: []string{"worker", "--case", "W99", "--", "true"}, code: 2, stderr: `there is no case "W99"`},
		{name: "an unknown case, listed", args: []string{"worker", "--list", "--case", "W99"}, code: 2, stderr: `there is no case "W99"`},
		{name: "an unknown version", args: []string{"worker", "--spec", "3", "--", "true"}, code: 2, stderr: `there is no spec "3"`},
		{name: "nobody at work", args: []string{"worker", "--parallel", "0", "--", "true"}, code: 2, stderr: "--parallel must be at least 1"},
		{name: "no patience", args: []string{"worker", "--patience", "0", "--", "true"}, code: 2, stderr: "--patience must be at least 1"},
		{name: "a baseline that is not there", args: []string{"worker", "--expected-failures", "no/such/file", "--", "true"}, code: 2, stderr: "no/such/file"},
		{name: "a baseline that is none", args: []string{"worker", "--expected-failures", write(t, "W1.1 W1.2"), "--", "true"}, code: 2, stderr: "line 1"},
		{name: "a baseline with an unknown case", args: []string{"worker", "--expected-failures", write(t, "W99"), "--", "true"}, code: 2, stderr: `"W99", which is no case`},
		{name: "a worker that ends at once", args: []string{"worker", "--case", "W1.11", "--", "true"}, code: 1, stdout: "failed    W1.11", stderr: "1 of 1 cases are red: W1.11"},
		{name: "as expected", args: []string{"worker", "--case", "W1.11", "--expected-failures", write(t, "W1.11 # it is no worker"), "--", "true"}, stdout: "as expected"},
		{name: "a may that fails", args: []string{"worker", "--case", "W5.6", "--", "true"}, stdout: "Nothing is red. It is not shown that the subject conforms, for no must was selected."},
		{name: "a must that passes", args: []string{"server", "--mock", "lightning", "--case", "S1.1"}, stdout: "Every must that was selected was tried and has passed."},
		{name: "another version", args: []string{"worker", "--case", "W3.27", "--", "true"}, code: 3, stdout: "not for Lightning 2.19: W3.27", stderr: "no case was tried"},
		{name: "another version, listed", args: []string{"worker", "--list", "--case", "W3.27"}, stdout: "a text with JSON in it, 2.15 only\n"},
		{name: "a may that fails, with a baseline", args: []string{"worker", "--case", "W5.6", "--expected-failures", write(t, ""), "--", "true"}, code: 1, stderr: "red: W5.6"},
		{name: "a worker that is not there", args: []string{"worker", "--case", "W1.11", "--", "/no/such/worker"}, code: 3, stdout: "not tried: start the worker", stderr: "no case was tried"},
		{name: "an interrupt", ctx: interrupted, args: []string{"worker", "--case", "W1.11", "--", "true"}, code: 3, stdout: "interrupted before it began", stderr: "interrupted"},
		{name: "a report that cannot be written", args: []string{"worker", "--case", "W1.20", "--json", "/no/such/folder/x", "--", "true"}, code: 3, stderr: "--json"},
		{name: "none of the reports can be written", args: []string{"worker", "--case", "W1.20", "--html", "/no/such/folder/x", "--junit", "/no/such/folder/y", "--", "true"}, code: 3, stderr: "--html"},
		{name: "nor can this one", args: []string{"worker", "--case", "W1.20", "--html", "/no/such/folder/x", "--junit", "/no/such/folder/y", "--", "true"}, code: 3, stderr: "--junit"},
	} {
		t.Run(test.name, func(t *testing.T) {
			ctx := test.ctx
			if ctx == nil {
				ctx = t.Context()
			}
			code, stdout, stderr := execute(ctx, test.args...)
			require.Equal(t, test.code, code, "%s%s", stdout, stderr)
			require.Contains(t, stdout, test.stdout)
			require.Contains(t, stderr, test.stderr)
		})
	}
}

// What a worker wrote says soonest why all of its cases fail, but not once for each of them.
func TestTheEndOfWhatAWorkerWroteIsShownOnce(t *testing.T) {
	const jwt = "eyJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJ4In0.c2lnbmF0dXJl"
	page := filepath.Join(t.TempDir(), "page")
	args := []string{"--case", "W1.1", "--case", "W1.2", "--parallel", "1", "--", "sh", "-c", "echo first; echo second >&2; echo; echo \x1b[31mthird; echo pid $$, " + jwt + " >&2"}
	_, stdout, _ := execute(t.Context(), append([]string{"worker"}, args...)...)
	require.Regexp(t, `what the worker wrote, at the end:\n            second\n            \[31mthird\n            pid \d+, …\n`, stdout)
	require.NotContains(t, stdout, "first")
	require.Equal(t, 1, strings.Count(stdout, "third"))
	require.Contains(t, stdout, "          what the worker wrote ends with the same as in W1.1, but for numbers\n")
	require.Equal(t, 1, strings.Count(stdout, "--html"))
	_, stdout, _ = execute(t.Context(), append([]string{"worker", "--html", page}, args...)...)
	require.NotContains(t, stdout, "--html")
}

func TestReportsAreWrittenWhereTheFlagsSay(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	code, _, _ := execute(t.Context(), "worker", "--case", "W1.11", "--json", at("json"), "--junit", at("junit"), "--html", at("html"),
		"--", "sh", "-c", "echo $WORKER_CAPACITY {url} {secret} {capacity} '{workloops}' >&2; exit 3")
	require.Equal(t, 1, code)
	var report suite.Report
	text, err := os.ReadFile(at("json"))
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(text, &report))
	require.Len(t, report.Results, 1)
	require.Contains(t, report.Results[0].Failures[0].Came, "exit status 3")
	require.Regexp(t, `^1 ws://127\.0\.0\.1:\d+/worker \w+ 1 manual>\*:1\n$`, report.Results[0].Outputs[0].Text)
	for name, want := range map[string]string{"junit": "<testsuite ", "html": "<!doctype html>"} {
		text, err := os.ReadFile(at(name))
		require.NoError(t, err)
		require.Contains(t, string(text), want)
	}
}
