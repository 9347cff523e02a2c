package main

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver/fault"
)

// startSentry returns the DSN of a Sentry, and what it receives.
func startSentry(t *testing.T) (dsn string, envelopes chan string) {
	t.Helper()
	envelopes = make(chan string, 10)
	sentry := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		envelopes <- string(body)
	}))
	t.Cleanup(sentry.Close)
	return strings.Replace(sentry.URL, "http://", "http://dsn-key@", 1) + "/1", envelopes
}

// A worker whose server signs with another key than it was told refuses each
// run, which somebody should hear of.
func TestAnErrorIsReportedToSentryWithNothingSecret(t *testing.T) {
	dsn, envelopes := startSentry(t)
	server, other := startServer(t, ""), startServer(t, "")
	stderr, stop := start(t, map[string]string{
		"WORKER_LIGHTNING_PUBLIC_KEY": other.PublicKey(), "WORKER_HTTP_TOKEN": "the-http-token", "WORKER_NAME": "pod-7",
		"WORKER_SENTRY_DSN": dsn, "WORKER_SENTRY_ENV": "staging",
	}, "-l", server.URL(), "-s", secret, "--port", "off")
	enqueue(t, server, "r", "fn(s => s)")
	stderr.await(t, "run refused")
	require.Equal(t, exitOK, stop(), "what is left is sent before the end")

	require.NotEmpty(t, envelopes)
	_, payload, found := strings.Cut(<-envelopes, "\n") // the header says where it goes
	require.True(t, found)
	var event struct {
		Message, Environment, Release string
		ServerName                    string `json:"server_name"`
	}
	require.NoError(t, json.Unmarshal([]byte(strings.Split(payload, "\n")[1]), &event))
	require.Equal(t, "no more claims: the tokens of runs cannot be verified", event.Message)
	require.Contains(t, payload, `token of run \"r\" refused`)
	require.Equal(t, "staging", event.Environment)
	require.Equal(t, "dev", event.Release)
	require.Equal(t, "pod-7", event.ServerName)
	for _, hidden := range []string{secret, "the-http-token", "dsn-key", "eyJ"} {
		require.NotContains(t, payload, hidden)
	}
	tokens := 0
	for _, exchange := range server.Transcript() {
		for _, token := range regexp.MustCompile(`eyJ[\w.-]+`).FindAllString(string(exchange.Data), -1) {
			require.NotContains(t, payload, token)
			tokens++
		}
	}
	require.NotZero(t, tokens, "the run had a token")
}

// Guards against an end that no program hears of: the last line was no JSON, and
// Sentry was told nothing.
func TestTheErrorThatEndsAWorkerIsInItsLog(t *testing.T) {
	dsn, envelopes := startSentry(t)
	server := startServer(t, "")
	_, err := server.AddFault(fault.Rule{Event: "claim", Action: fault.Refuse, Response: json.RawMessage(`{"reason":"out of order"}`), Count: 100})
	require.NoError(t, err)
	env := map[string]string{"WORKER_PORT": "off", "WORKER_SENTRY_DSN": dsn}
	args := []string{"-l", server.URL(), "-s", secret, "--engine", "js", "--max-errors", "2", "--backoff", "0.01/0.02"}
	code, _, stderr := execute(t.Context(), env, args...)
	require.Equal(t, exitFailure, code)
	for line := range strings.Lines(stderr) {
		require.True(t, json.Valid([]byte(line)), line)
	}
	const why = `"error":"too many errors, the worker has stopped itself; the log says which"`
	require.Contains(t, last(stderr), `"level":"ERROR","msg":"the worker has ended",`+why)
	told := ""
	for len(envelopes) > 0 {
		told += <-envelopes
	}
	require.Contains(t, told, "the worker has ended")

	code, _, stderr = execute(t.Context(), map[string]string{"WORKER_PORT": "off"}, append(args, "--log", "none")...)
	require.Equal(t, exitFailure, code)
	require.Equal(t, "phxworker: too many errors, the worker has stopped itself; the log says which\n", stderr, "who has no log is told none the less")
}
