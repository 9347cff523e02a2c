package mockserver_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

func TestCancel(t *testing.T) {
	const told = `{"message":"no <longer> wanted"}`
	inExtended(t, mockserver.Config{Lease: time.Minute}, []string{"running", "claimed", "away", "plain", "queued"}, func(t *testing.T, m *inMemory) {
		c := m.queued("w", `"lease":1,"release":1`)
		cancel := func(id string) error { return m.Cancel(id, "no <longer> wanted") }

		c.begin()
		require.NoError(t, cancel("running"))
		require.Equal(t, []string{told}, c.pushed("run:running", "run:cancel"))
		require.Equal(t, mockserver.State("started"), m.record("running").State, "its worker ends it")
		require.Equal(t, "ok", c.ask("run:running", "run:complete", `{"reason":"cancel"}`).Status)
		require.ErrorContains(t, cancel("running"), `run "running" is cancelled: it is over already`)

		claimed := c.claim()
		require.NoError(t, cancel("claimed"))
		require.Contains(t, c.joinRun(claimed, everyRunExtension), "ok")
		require.Equal(t, []string{told}, c.pushed("run:claimed", "run:cancel"), "when it joins")

		c.begin()
		c.ask("run:away", "phx_leave", `{}`)
		require.NoError(t, cancel("away"))
		pass(time.Minute) // not back before its lease ended: it is not given to another
		require.Equal(t, mockserver.Result{ID: "away", State: "cancelled", Reason: "cancel", ErrorMessage: "no <longer> wanted"}, m.record("away").Result)

		plain := c.claim()
		require.Equal(t, "ok {}", c.joinRun(plain, ``))
		err := cancel("plain")
		require.ErrorAs(t, err, new(*mockserver.NotAgreedError))
		require.EqualError(t, err, `the worker of run "plain" has not agreed on the extension cancel with the server`)
		require.Empty(t, c.pushed("run:plain", "run:cancel"))

		require.NoError(t, cancel("queued"))
		require.Equal(t, mockserver.State("cancelled"), m.record("queued").State)
		c.claimNothing()
		require.ErrorIs(t, cancel("nope"), mockserver.ErrUnknownRun)
		require.EqualValues(t, 3, m.Stats().Extended.Cancels)
	})
	t.Run("while it is delayed", func(t *testing.T) {
		inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *inMemory) {
			c := m.queued("w", everyQueueExtension)
			r := c.begin()
			c.ask("worker:queue", "run:release", `{"id":"r1","token":"`+r.Token+`","reason":"postpone","delay_ms":5000}`)
			require.NoError(t, m.Cancel("r1", ""))
			pass(time.Minute)
			c.claimNothing()
			require.Equal(t, mockserver.State("cancelled"), m.record("r1").State)
			require.Zero(t, m.Stats().Extended.Delayed)
		})
	})
	t.Run("in Lightning's own mode", func(t *testing.T) {
		m := newInMemory(t, mockserver.Config{Mode: mockserver.Lightning, OpaqueTokens: true})
		c, id := m.claimed(mockserver.Run{Plan: plan("r1")})
		require.ErrorAs(t, m.Cancel(id, ""), new(*mockserver.NotAgreedError))
		require.ErrorAs(t, m.Notify(id, []byte(`{}`)), new(*mockserver.NotAgreedError))
		c.ok("run:r1", "fetch:plan", `{}`)
		require.Empty(t, c.pushes)
		m.enqueue(mockserver.Run{Plan: plan("r2")})
		require.NoError(t, m.Cancel("r2", ""))
		require.Empty(t, c.claimIDs(1, `["*"]`))
	})
}

func TestNotify(t *testing.T) {
	inExtended(t, mockserver.Config{}, []string{"r1", "r2"}, func(t *testing.T, m *inMemory) {
		require.ErrorIs(t, m.Notify("nope", []byte(`{}`)), mockserver.ErrUnknownRun)
		for _, bad := range []string{``, `null`, `[]`, `"x"`, `{"a":`} {
			require.ErrorIs(t, m.Notify("r1", json.RawMessage(bad)), mockserver.ErrNotification)
		}
		require.ErrorAs(t, m.Notify("r1", []byte(`{}`)), new(*mockserver.StateError), "it waits")
		c := m.queued("w", everyQueueExtension)
		r := c.claim()
		require.EqualError(t, m.Notify("r1", []byte(`{}`)), `run "r1" is claimed: no worker has joined its topic just now`)
		require.Contains(t, c.joinRun(r, everyRunExtension), "ok")
		require.NoError(t, m.Notify("r1", []byte(`{"speed":2}`)))
		require.Equal(t, []string{`{"speed":2}`}, c.pushed("run:r1", "run:notify"))
		require.Equal(t, "ok {}", c.joinRun(r, ``))
		require.ErrorAs(t, m.Notify("r1", []byte(`{}`)), new(*mockserver.NotAgreedError), "not with this join")
		require.Equal(t, "ok", c.ask("run:r1", "run:complete", success).Status)
		require.ErrorAs(t, m.Notify("r1", []byte(`{}`)), new(*mockserver.StateError))
		require.EqualValues(t, 1, m.Stats().Extended.Notifications)
	})
}

func TestDispatch(t *testing.T) {
	for _, mode := range []mockserver.Mode{mockserver.Lightning, mockserver.Extended} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := newInMemory(t, mockserver.Config{Mode: mode, OpaqueTokens: true, IdleTimeout: time.Hour, KeepRuns: -1})
				c := m.queued("w", "")
				go func() {
					for len(c.pushed("worker:queue", "work-available")) == 0 {
						time.Sleep(time.Millisecond)
					}
					c.joinRun(c.claim(), "")
					c.ask("run:r1", "run:complete", `{"reason":"success","final_state":{"a":1}}`)
				}()
				result, err := m.Dispatch(t.Context(), mockserver.Run{Plan: plan("r1")})
				require.NoError(t, err)
				require.Equal(t, mockserver.Result{ID: "r1", State: "success", Reason: "success", FinalState: []byte(`{"a":1}`)}, result)

				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				_, err = m.Dispatch(ctx, mockserver.Run{Plan: plan("r2")})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, time.Minute, time.Since(start))
				require.Equal(t, mockserver.State("available"), m.record("r2").State, "it stays")
				_, err = m.Dispatch(t.Context(), mockserver.Run{Plan: plan("r2")})
				require.ErrorAs(t, err, new(*mockserver.ConflictError))
			})
		})
	}
}

func TestTheQueueIsBounded(t *testing.T) {
	tests := []struct {
		name  string
		cfg   mockserver.Config
		limit int
	}{
		{name: "Lightning", cfg: mockserver.Config{Mode: mockserver.Lightning}},
		{name: "Lightning, if it is to be", cfg: mockserver.Config{Mode: mockserver.Lightning, MaxQueued: 3}, limit: 3},
		{name: "extended", cfg: mockserver.Config{Mode: mockserver.Extended}, limit: 1000},
		{name: "extended, without limit", cfg: mockserver.Config{Mode: mockserver.Extended, MaxQueued: -1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.cfg.OpaqueTokens = true
			m := newInMemory(t, tt.cfg)
			for i := range 1100 {
				_, err := m.Enqueue(mockserver.Run{Plan: plan(fmt.Sprint("r", i))})
				if tt.limit == 0 || i < tt.limit {
					require.NoError(t, err)
					continue
				}
				require.Equal(t, &mockserver.FullError{Limit: tt.limit}, err)
			}
			if tt.limit == 0 {
				return
			}
			w := httptest.NewRecorder()
			m.ServeHTTP(w, httptest.NewRequest(http.MethodPost, "/run", strings.NewReader(`{"jobs":[]}`)))
			require.Equal(t, 429, w.Code)
			require.Equal(t, "1", w.Header().Get("Retry-After"))
			require.Equal(t, fmt.Sprintf(`{"error":"the queue is full: %d runs wait to be claimed; try again when workers have taken some"}`+"\n", tt.limit), w.Body.String())
			require.EqualValues(t, 1101-tt.limit, m.Stats().Full)
			require.Len(t, m.worker().claimIDs(1, `["*"]`), 1)
			m.enqueue(mockserver.Run{Plan: plan("again")})
		})
	}
}
