package main

import (
	"context"
	"encoding/json"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner/delivery"
)

func TestSpoolIsListedAndResent(t *testing.T) {
	server := startServer(t, "")
	dir := t.TempDir()
	code, stdout, _ := execute(t.Context(), nil, "spool", "--spool", dir)
	require.Equal(t, exitOK, code)
	require.Contains(t, stdout, "nothing is spooled")

	// A run that was claimed, started and given up; its token is still good.
	enqueue(t, server, "lost", "fn(s => s)")
	token := claimByHand(t, server)
	spooled := delivery.Spooled{
		RunID: "lost", Token: token, Cause: "the network was away", At: time.Now(), Delivered: 2,
		Events: []delivery.SpooledEvent{{Event: "run:complete", Payload: json.RawMessage(`{"reason":"success","error_type":null,"error_message":null,"final_state":{"kept":true}}`)}},
	}
	data, err := json.Marshal(spooled)
	require.NoError(t, err)
	path := filepath.Join(dir, "lost.json")
	require.NoError(t, os.WriteFile(path, data, 0o600))

	code, stdout, _ = execute(t.Context(), nil, "spool", "--spool", dir)
	require.Equal(t, exitOK, code)
	require.Regexp(t, `lost .* 1 of 3 events .*the network was away`, stdout)
	require.NotContains(t, stdout, token)

	code, stdout, stderr := execute(t.Context(), nil, "spool", "--resend", "--spool", dir, "-l", server.URL(), "-s", secret)
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "lost: reported")
	require.JSONEq(t, `{"kept":true}`, string(wait(t, server, "lost").FinalState))
	require.NoFileExists(t, path)

	code, _, stderr = execute(t.Context(), nil, "spool", "--resend", "--spool", dir)
	require.Equal(t, exitUsage, code)
	require.Contains(t, stderr, "no secret", "only who sends needs one")
}

// claimByHand claims the only run that is queued and returns its token.
func claimByHand(t *testing.T, server *mockserver.Server) string {
	t.Helper()
	claims := jwt.MapClaims{"iss": "urn:openfn:worker", "iat": time.Now().Unix(), "worker_id": "by-hand"}
	token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte(secret))
	require.NoError(t, err)
	socket, err := channel.Open(channel.Config{URL: server.URL(), Params: func(context.Context) (url.Values, error) {
		return url.Values{"token": {token}}, nil
	}})
	require.NoError(t, err)
	defer socket.Close()
	topic, err := socket.Join(t.Context(), "worker:queue", nil)
	require.NoError(t, err)
	reply, err := topic.Push(t.Context(), "claim", map[string]any{"demand": 1, "worker_name": nil})
	require.NoError(t, err)
	var body struct{ Runs []struct{ Token string } }
	require.NoError(t, reply.Decode(&body))
	require.Len(t, body.Runs, 1)
	return body.Runs[0].Token
}

// Guards against a file that is anything but a run, and a join of a topic that is
// no run's.
func TestASpooledRunThatNamesNoneIsRefused(t *testing.T) {
	server := startServer(t, "")
	dir := t.TempDir()
	path := filepath.Join(dir, "other.json")
	require.NoError(t, os.WriteFile(path, []byte("{}"), 0o600))
	for _, more := range [][]string{nil, {"--resend", "-l", server.URL(), "-s", secret}} {
		code, stdout, stderr := execute(t.Context(), nil, append([]string{"spool", "--spool", dir}, more...)...)
		require.Equal(t, exitFailure, code, stdout)
		require.Equal(t, "phxworker: "+path+" is no spooled run: it has no run_id\n", stderr)
	}
	require.Empty(t, sent(server, "run:"))
	require.FileExists(t, path)
}

// Guards against a terminal that does what a server says.
func TestWhatIsListedOfASpoolIsPlainText(t *testing.T) {
	dir := t.TempDir()
	data, err := json.Marshal(delivery.Spooled{RunID: "\x1b[2Jrun", Token: "t", Cause: "no\x1b]0;owned\a\nsecond line\t"})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "run.json"), data, 0o600))
	code, stdout, _ := execute(t.Context(), nil, "spool", "--spool", dir)
	require.Equal(t, exitOK, code)
	require.NotContains(t, stdout, "\x1b")
	require.Equal(t, 2, strings.Count(stdout, "\n"), stdout)
}
