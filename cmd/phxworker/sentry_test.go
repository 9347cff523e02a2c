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
)

// A worker whose server signs with another key than it was told refuses each
// run, which somebody should hear of.
func TestAnErrorIsReportedToSentryWithNothingSecret(t *testing.T) {
	envelopes := make(chan string, 10)
	sentry := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		envelopes <- string(body)
	}))
	t.Cleanup(sentry.Close)
	server, other := startServer(t, ""), startServer(t, "")
	stderr, stop := start(t, map[string]string{
		"WORKER_LIGHTNING_PUBLIC_KEY": other.PublicKey(), "WORKER_HTTP_TOKEN": "the-http-token", "WORKER_NAME": "pod-7",
		"WORKER_SENTRY_DSN": strings.Replace(sentry.URL, "http://", "http://dsn-key@", 1) + "/1", "WORKER_SENTRY_ENV": "staging",
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
		Tags                          map[string]string
	}
	require.NoError(t, json.Unmarshal([]byte(strings.Split(payload, "\n")[1]), &event))
	require.Equal(t, "run refused, it will not be started", event.Message)
	require.Equal(t, "r", event.Tags["run_id"])
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
