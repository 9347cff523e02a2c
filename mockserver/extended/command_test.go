package extended_test

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

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

func TestCancel(t *testing.T) {
	const told = `{"message":"no <longer> wanted"}`
	inExtended(t, mockserver.Config{Lease: time.Minute}, []string{"running", "claimed", "away", "plain", "queued"}, func(t *testing.T, m *server) {
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
		inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *server) {
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
		m := newServer(t, mockserver.Config{Mode: mockserver.Lightning, OpaqueTokens: true})
		c, id := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1")})
		require.ErrorAs(t, m.Cancel(id, ""), new(*mockserver.NotAgreedError))
		require.ErrorAs(t, m.Notify(id, []byte(`{}`)), new(*mockserver.NotAgreedError))
		c.OK("run:r1", "fetch:plan", `{}`)
		require.Empty(t, c.Pushes)
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r2")})
		require.NoError(t, m.Cancel("r2", ""))
		require.Empty(t, c.ClaimIDs(1, `["*"]`))
	})
}

func TestNotify(t *testing.T) {
	inExtended(t, mockserver.Config{}, []string{"r1", "r2"}, func(t *testing.T, m *server) {
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
				m := newServer(t, mockserver.Config{Mode: mode, OpaqueTokens: true, IdleTimeout: time.Hour, KeepRuns: -1})
				c := m.queued("w", "")
				go func() {
					for len(c.pushed("worker:queue", "work-available")) == 0 {
						time.Sleep(time.Millisecond)
					}
					c.joinRun(c.claim(), "")
					c.ask("run:r1", "run:complete", `{"reason":"success","final_state":{"a":1}}`)
				}()
				result, err := m.Dispatch(t.Context(), mockserver.Run{Plan: mocktest.Plan("r1")})
				require.NoError(t, err)
				require.Equal(t, mockserver.Result{ID: "r1", State: "success", Reason: "success", FinalState: []byte(`{"a":1}`)}, result)

				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				start := time.Now()
				_, err = m.Dispatch(ctx, mockserver.Run{Plan: mocktest.Plan("r2")})
				require.ErrorIs(t, err, context.DeadlineExceeded)
				require.Equal(t, time.Minute, time.Since(start))
				require.Equal(t, mockserver.State("available"), m.record("r2").State, "it stays")
				_, err = m.Dispatch(t.Context(), mockserver.Run{Plan: mocktest.Plan("r2")})
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
			m := newServer(t, tt.cfg)
			for i := range 1100 {
				_, err := m.Enqueue(mockserver.Run{Plan: mocktest.Plan(fmt.Sprint("r", i))})
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
			require.Len(t, m.Worker().ClaimIDs(1, `["*"]`), 1)
			m.Queue(mockserver.Run{Plan: mocktest.Plan("again")})
		})
	}
}

func TestHTTPOfThePool(t *testing.T) {
	inExtended(t, mockserver.Config{}, []string{"queued", "mine", "plain"}, func(t *testing.T, m *server) {
		ask := func(method, path, body string, status int, want string) {
			t.Helper()
			got, text := mocktest.Call(t, m, method, path, body)
			require.Equal(t, status, got, text)
			require.Equal(t, want+"\n", text)
		}
		ask("POST", "/run/queued/cancel", ``, 200, `{"id":"queued","state":"cancelled"}`)
		ask("POST", "/run/queued/cancel", ``, 409, `{"error":"run \"queued\" is cancelled: it is over already"}`)
		ask("POST", "/run/queued/notify", `{}`, 409, `{"error":"run \"queued\" is cancelled: it is over already"}`)
		ask("POST", "/run/nope/cancel", ``, 404, `{"error":"no such run: it was never queued, or it ended and is forgotten"}`)
		ask("POST", "/run/nope/notify", `{}`, 404, `{"error":"no such run: it was never queued, or it ended and is forgotten"}`)
		ask("GET", "/workers", ``, 200, `{"workers":[]}`)

		c := m.queued("w", everyQueueExtension)
		c.begin()
		ask("POST", "/run/mine/cancel", `{"message":7}`, 422, `{"errors":{"message":["must be a string"]}}`)
		ask("POST", "/run/mine/cancel", `{`, 400, `{"error":"the body is not JSON: unexpected end of JSON input"}`)
		ask("POST", "/run/mine/cancel", `{"message":"enough"}`, 202, `{"id":"mine","state":"started"}`)
		require.Equal(t, []string{`{"message":"enough"}`}, c.pushed("run:mine", "run:cancel"))
		ask("POST", "/run/mine/notify", `[]`, 422, `{"error":"a notification must be a JSON object"}`)
		ask("POST", "/run/mine/notify", ``, 400, `{"error":"the body is empty: send JSON"}`)
		ask("POST", "/run/mine/notify", ` {"speed": 2} `, 200, `{"id":"mine"}`)
		require.Equal(t, []string{`{"speed": 2}`}, c.pushed("run:mine", "run:notify"))

		require.Equal(t, "ok {}", c.joinRun(c.claim(), ``))
		ask("POST", "/run/plain/cancel", ``, 422, `{"error":"the worker of run \"plain\" has not agreed on the extension cancel with the server"}`)
		ask("POST", "/drain", ``, 200, `{"workers":1}`)
		_, workers := mocktest.Call(t, m, "GET", "/workers", "")
		require.Contains(t, workers, `"id":"w","name":"w","joins":1,"since":`)
		require.Contains(t, workers, `"waiting_claims":0`)
		require.Contains(t, workers, `"runs":["mine","plain"],`)
		require.Contains(t, workers, `"drained":true`)
	})
}

func TestHTTPWait(t *testing.T) {
	inExtended(t, mockserver.Config{}, nil, func(t *testing.T, m *server) {
		c := m.queued("w", everyQueueExtension)
		type answer struct {
			status int
			body   string
		}
		post := func(query, body string) <-chan answer {
			came := make(chan answer, 1)
			go func() {
				status, text := mocktest.Call(t, m, "POST", "/run?"+query, body)
				came <- answer{status, text}
			}()
			synctest.Wait()
			return came
		}
		came := post("wait", `{"id":"r1","key":"k","jobs":[]}`)
		require.Equal(t, `ok {"id":"r1","jobs":[]}`, func() string { r := c.begin(); return c.answer(r.topic(), "fetch:plan", `{}`) }())
		require.Empty(t, came)
		require.Equal(t, "ok", c.ask("run:r1", "run:complete", `{"reason":"fail","error_type":"JobError","error_message":"no"}`).Status)
		require.Equal(t, answer{200, `{"id":"r1","state":"failed","reason":"fail","error_type":"JobError","error_message":"no"}` + "\n"}, <-came)
		require.Equal(t, "k", m.record("r1").Key)

		for query, patience := range map[string]time.Duration{"wait": 40 * time.Second, "wait=1.5": 1500 * time.Millisecond} {
			came = post(query, `{"id":"`+query+`","jobs":[]}`)
			pass(patience - time.Millisecond)
			require.Empty(t, came)
			pass(time.Millisecond)
			got := <-came
			require.Equal(t, 504, got.status)
			require.Equal(t, `{"error":"run \"`+query+`\" has not ended within `+patience.String()+`; it stays, see GET /run/{id}","id":"`+query+`"}`+"\n", got.body)
			require.Equal(t, mockserver.State("available"), m.record(query).State)
		}
		for query, status := range map[string]int{"wait=soon": 422, "wait=0": 422, "wait=-1": 422, "wait=NaN": 422, "wait=1e9": 422} {
			require.Equal(t, answer{status, `{"errors":{"wait":["must be a number of seconds, at most an hour"]}}` + "\n"}, <-post(query, `{"id":"bad","jobs":[]}`))
		}
		require.Equal(t, 409, (<-post("wait", `{"id":"r1","jobs":[]}`)).status)
		require.Equal(t, answer{422, `{"errors":{"key":["must be a string"]}}` + "\n"}, <-post("", `{"key":7,"jobs":[]}`))
	})
}

// The events of the extensions can go wrong as all others can.
func TestFaultsOfExtensionEvents(t *testing.T) {
	events := []struct{ event, topic string }{
		{"run:renew", "run:r1"}, {"run:release", "worker:queue"}, {"worker:status", "worker:queue"},
	}
	for _, e := range events {
		for _, action := range []fault.Action{fault.Crash, fault.Withhold, fault.Drop, fault.Refuse} {
			t.Run(e.event+" "+string(action), func(t *testing.T) {
				rule := fault.Rule{Event: e.event, Action: action}
				if action == fault.Refuse {
					rule.Response = []byte(`"no"`)
				} else {
					rule.When = fault.Before
				}
				inExtended(t, mockserver.Config{Faults: []fault.Rule{rule}}, []string{"r1"}, func(t *testing.T, m *server) {
					c := m.queued("w", everyQueueExtension)
					r := c.begin()
					ref := c.Send(e.topic, e.event, `{"id":"r1","token":"`+r.Token+`","reason":"requeue"}`)
					reply, answered := c.replied(ref)
					switch action {
					case fault.Refuse:
						require.Equal(t, `"no"`, string(reply.Payload))
					case fault.Crash:
						require.Len(t, c.pushed(e.topic, frame.Error), 1)
					case fault.Drop:
						require.Zero(t, m.Stats().Sockets)
					default:
						require.False(t, answered)
					}
					require.Len(t, m.Faults(), 1)
					require.Equal(t, mockserver.State("started"), m.record("r1").State)
					require.Zero(t, m.record("r1").Owners[0].Renewals)
					require.Nil(t, m.Workers()[0].Status)
				})
			})
		}
	}
}

// The reply to a claim that waited is lost with the connection: nobody has heard of
// the run, which is given to another when its claim is not confirmed.
func TestTheReplyToAWaitingClaimIsLost(t *testing.T) {
	rule := fault.Rule{Event: "claim", Action: fault.Drop, When: fault.After}
	inExtended(t, mockserver.Config{Faults: []fault.Rule{rule}}, nil, func(t *testing.T, m *server) {
		c := m.queued("w", everyQueueExtension)
		ref := c.Send("worker:queue", "claim", claimAndWait)
		pass(time.Second)
		require.Equal(t, 1, m.Stats().Sockets, "as long as it waits")
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r1")})
		require.Nil(t, c.got(ref))
		require.Zero(t, m.Stats().Sockets)
		other := m.queued("other", everyQueueExtension)
		pass(20*time.Second - time.Millisecond)
		other.claimNothing()
		pass(time.Millisecond)
		require.Equal(t, "r1", other.claim().ID)
	})
}
