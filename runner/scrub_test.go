package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/mockserver"
)

func TestSecretsOfCredentialsNeverReachTheLog(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		engine := Func(func(_ context.Context, run *Run) (any, error) {
			run.Print("the password is hunter22!")
			run.Log(Line{Message: []json.RawMessage{json.RawMessage(`{"hunter22":["x hunter22"],"n":1234}`)}})
			return nil, nil
		})
		w.run(Config{Engine: engine}, mockserver.Run{
			Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","credential":"c"}]}`),
			Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"username":"somebody","password":"hunter22","pin":"1234"}`)},
		})
		require.Equal(t, []string{"the password is ***!", "map[***:[x ***] n:1234]", "Run complete with status: success"}, w.logged("r1"))
	})
}

func TestSecretsAreReplacedInLogLines(t *testing.T) {
	tests := []struct {
		name   string
		secret string
		line   string // JSON
		want   string // JSON
	}{
		{name: "alone", secret: "hunter22", line: `"hunter22"`, want: `"***"`},
		{name: "inside", secret: "hunter22", line: `{"a":["is hunter22!",1,null],"hunter22":2}`, want: `{"a":["is ***!",1,null],"***":2}`},
		{name: "in a text of JSON", secret: "hunter22", line: `"{\"password\":\"hunter22\"}"`, want: `"{\"password\":\"***\"}"`},
		{name: "with quotes and lines", secret: "a\"b\nc\\", line: `"<a\"b\nc\\>"`, want: `"<***>"`},
		{name: "escaped as for HTML", secret: "<&>!", line: `"\u003c\u0026\u003e!"`, want: `"***"`},
		{name: "spelled otherwise", secret: "päss", line: `"p\u00e4ss"`, want: `"***"`},
		{name: "no string", secret: "12345", line: `12345`, want: `12345`},
		{name: "short", secret: "abc", line: `"abc"`, want: `"abc"`},
		// Regression: an escape was cut in two, and the line was JSON no more.
		{name: "begins with the letter of an escape", secret: "nobody1", line: `"hello\nobody1"`, want: `"hello\nobody1"`},
		{name: "begins inside an escape", secret: "0001abc", line: `"\u0001abc"`, want: `"\u0001abc"`},
		{name: "behind an escape", secret: "nobody1", line: `"hello\\nobody1\n"`, want: `"hello\\***\n"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			onWire(t, func(t *testing.T, w *wire) {
				body, err := json.Marshal(map[string]string{"password": tt.secret})
				require.NoError(t, err)
				run := mockserver.Run{
					Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","body":"x","credential_id":"c"}]}`),
					Credentials: map[string]json.RawMessage{"c": body},
				}
				engine := Func(func(_ context.Context, run *Run) (any, error) {
					run.Log(Line{Level: "info", Source: "JOB", Message: []json.RawMessage{json.RawMessage(tt.line)}})
					return nil, nil
				})
				require.Equal(t, Success, w.run(Config{Engine: engine}, run).Reason)
				got, err := json.Marshal(w.events("r1", "run:log")[0]["message"].([]any)[0])
				require.NoError(t, err)
				require.JSONEq(t, tt.want, string(got))
			})
		})
	}
}

func TestTheTokenIsScrubbedFromWhatAcceptLogs(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		id, token := w.claim(planOf(""))
		r := New(Config{Engine: Func(success), Accept: func(_ context.Context, run *Run) error {
			run.Print("asking with " + run.Token())
			return nil
		}})
		require.NoError(t, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		for _, line := range w.logged("r1") {
			require.NotContains(t, line, token)
		}
	})
}

// clumsy is an engine whose panics quote what it was given, as those of any library may.
type clumsy struct{ Func }

func (c clumsy) Prepare(ctx context.Context, run *Run) (Execution, error) {
	execution, err := c.Func.Prepare(ctx, run)
	return listening{execution, func(json.RawMessage) { panic(fmt.Sprintf("no such token: %s", run.Token())) }}, err
}

// Guards against credentials in the worker's own log, and so in what Sentry gets.
func TestSecretsAreReplacedInWhatAPanicSays(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		var log bytes.Buffer
		id, token := w.claim(mockserver.Run{
			Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","body":"x","credential_id":"c"}]}`),
			Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"password":"hunter22"}`)},
		})
		var r *Runner
		r = New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Engine: clumsy{func(ctx context.Context, run *Run) (any, error) {
			require.NoError(t, r.Notify(ctx, run.ID, json.RawMessage(`{}`)))
			panic(fmt.Errorf("cannot log in with %s", run.Credential("a")))
		}}})
		require.NoError(t, r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil).Err)
		require.Contains(t, log.String(), `panic="cannot log in with {\"password\":\"***\"}"`)
		require.Contains(t, log.String(), `panic="no such token: ***"`)
		require.NotContains(t, log.String(), "hunter22")
		require.NotContains(t, log.String(), token)
	})
}

// Guards against secrets in the worker's log and in what the run ends with, when the
// mistake is the worker's own.
func TestSecretsAreReplacedInWhatAPanicOfOursSays(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		var log bytes.Buffer
		id, token := w.claim(mockserver.Run{
			Plan:        json.RawMessage(`{"id":"r1","jobs":[{"id":"a","body":"x","credential_id":"c"}]}`),
			Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"password":"hunter22"}`)},
		})
		r := New(Config{Logger: slog.New(slog.NewTextHandler(&log, nil)), Engine: bombed{success}})
		outcome := r.Run(t.Context(), t.Context(), w.socket, claim.Run{ID: id, Token: token}, nil)
		require.ErrorContains(t, outcome.Err, `panic: bomb: cannot encode {"password":"***"} of ***`)
		require.Contains(t, log.String(), `panic="bomb: cannot encode {\"password\":\"***\"} of ***"`)
		require.NotContains(t, log.String(), "hunter22")
		require.NotContains(t, log.String(), token)
	})
}
