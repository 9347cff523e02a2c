package phxworker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/wstest"
)

// lightningMock answers as OpenFn's lightning-mock does in the recorded sessions
// of the real ws-worker, where it differs from Phoenix: replies are named after
// their ref, a join is answered "ok", a dataclip comes as byte values, a
// wake-up carries the string "{}", and a leave is an error.
type lightningMock struct {
	plan     string
	dataclip string
	runs     string            // what the first claim brings
	agrees   string            // the extensions it announces, an object; none if empty
	pushes   []string          // events it pushes on a run's topic and the queue's, once a run is joined
	answers  map[string]string // to events, instead of what follows from the above
	pushed   string            // the end of a message that it pushes then, after refs and topic
	closes   string            // the event of a run over which it closes the topic
	claimed  bool
	events   chan string // "event payload"
}

func (m *lightningMock) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	conn, err := (&websocket.Upgrader{EnableCompression: true}).Upgrade(w, r, nil)
	if err != nil {
		return
	}
	defer conn.Close()
	for {
		_, data, err := conn.ReadMessage()
		if err != nil {
			return
		}
		var parts [5]json.RawMessage
		if json.Unmarshal(data, &parts) != nil {
			return
		}
		var ref, topic, event string
		_ = json.Unmarshal(parts[1], &ref)
		_ = json.Unmarshal(parts[2], &topic)
		_ = json.Unmarshal(parts[3], &event)
		m.events <- event + " " + string(parts[4])
		if event == "heartbeat" {
			event = "phx_join" // answered alike
		}
		reply := fmt.Sprintf(`[%s,%s,%q,"chan_reply_%s",%s]`, parts[0], parts[1], topic, ref, m.answer(topic, event))
		if conn.WriteMessage(websocket.TextMessage, []byte(reply)) != nil {
			return
		}
		if event == "phx_join" && strings.HasPrefix(topic, "run:") {
			for _, push := range m.pushes {
				for _, to := range []string{topic, "worker:queue"} {
					_ = conn.WriteMessage(websocket.TextMessage, []byte(`[null,null,"`+to+`","`+push+`",{"message":"no"}]`))
				}
			}
		}
		if event == "phx_join" && m.pushed != "" {
			_ = conn.WriteMessage(websocket.TextMessage, []byte(`[null,null,"`+topic+`"`+m.pushed))
		}
		if event == m.closes {
			_ = conn.WriteMessage(websocket.TextMessage, []byte(`[null,null,"`+topic+`","phx_close",{}]`))
		}
		if event == "phx_join" && topic == "worker:queue" {
			_ = conn.WriteMessage(websocket.TextMessage, []byte(`[null,"","worker:queue","work-available","{}"]`))
		}
	}
}

func (m *lightningMock) answer(topic, event string) string {
	if said, found := m.answers[event]; found {
		return said
	}
	switch event {
	case "phx_join":
		if m.agrees != "" {
			return `{"status":"ok","response":{"extensions":` + m.agrees + `}}`
		}
		return `{"status":"ok","response":"ok"}`
	case "claim":
		if m.claimed {
			return `{"status":"ok","response":{"runs":[]}}`
		}
		m.claimed = true
		return `{"status":"ok","response":{"runs":[` + m.runs + `]}}`
	case "fetch:plan":
		return `{"status":"ok","response":` + m.plan + `}`
	case "fetch:dataclip":
		values := make([]int, len(m.dataclip))
		for i := range values {
			values[i] = int(m.dataclip[i])
		}
		body, _ := json.Marshal(values)
		return `{"status":"ok","response":` + string(body) + `}`
	case "fetch:credential":
		return `{"status":"ok","response":{"user":"user "}}`
	case "phx_leave":
		return fmt.Sprintf(`{"status":"error","response":"There are no listeners on channel %s"}`, topic)
	}
	return `{"status":"ok"}`
}

func TestAWholeRunAgainstLightningMock(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mock := &lightningMock{
			plan: `{"id":"r1","triggers":[],"edges":[{"id":"e1","source_job_id":"j1","target_job_id":"j2","condition":"on_job_success"}],"dataclip_id":"d",
				"jobs":[{"id":"j1","name":"First","adaptor":"@openfn/language-common@latest","credential":"c","body":"x"},{"id":"j2","name":"Second","body":"y"}]}`,
			dataclip: `{"data":{}}`,
			runs:     `{"id":7},{"id":"r1","token":"x.y.z"}`,
			events:   make(chan string, 1000),
		}
		listener := wstest.Serve(t, mock)
		ctx, stop := context.WithCancel(t.Context())
		worker, err := phxworker.New(phxworker.Config{
			URL: "ws://lightning.test/worker", Secret: "s", Transport: phxworker.Transport{NetDial: listener.DialContext},
			Engine: phxworker.Func(func(_ context.Context, run *phxworker.Run) (any, error) {
				return map[string]string{"input": string(run.Input), "credential": string(run.Credential("j1"))}, nil
			}),
		})
		require.NoError(t, err)
		ended := make(chan error)
		go func() { ended <- worker.Run(ctx) }()
		settle(2 * time.Minute) // heartbeats too
		stop()
		require.NoError(t, <-ended)

		require.Equal(t, map[phxworker.Reason]int{"success": 1}, worker.Stats().Ended)
		require.Zero(t, worker.Stats().Undelivered)
		close(mock.events)
		var seen []string
		joins := 0
		for e := range mock.events {
			var event string
			_, _ = fmt.Sscan(e, &event)
			switch event {
			case "phx_join":
				joins++
			case "claim", "heartbeat":
			default:
				seen = append(seen, event)
			}
			if event == "run:complete" {
				require.Contains(t, e, `"final_state":{"credential":"{\"user\":\"user \"}","input":"{\"data\":{}}"}`)
			}
		}
		require.Equal(t, 2, joins, "the queue and the run, and neither again after the odd reply to the leave")
		require.Equal(t, []string{"fetch:plan", "fetch:dataclip", "fetch:credential", "run:start", "run:log", "run:complete", "phx_leave", "phx_leave"}, seen)
	})
}

// Whatever the server says, one worker executes a run once at a time.
func TestARunThatIsGivenTwiceIsExecutedOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mock := &lightningMock{
			plan: `{"id":"r1","jobs":[{"id":"j"}]}`, runs: `{"id":"r1","token":"x.y.z"},{"id":"r1","token":"a.b.c"}`, events: make(chan string, 1000),
		}
		listener := wstest.Serve(t, mock)
		var log bytes.Buffer
		var executed atomic.Int32
		worker, err := phxworker.New(phxworker.Config{
			URL: "ws://lightning.test/worker", Secret: "s", Transport: phxworker.Transport{NetDial: listener.DialContext}, Logger: slog.New(slog.NewTextHandler(&log, nil)),
			Engine: phxworker.Func(func(context.Context, *phxworker.Run) (any, error) {
				executed.Add(1)
				time.Sleep(time.Minute)
				return nil, nil
			}),
		})
		require.NoError(t, err)
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Minute)
		defer stop()
		require.NoError(t, worker.Run(ctx))
		require.EqualValues(t, 1, executed.Load())
		require.Contains(t, log.String(), "not executed twice")
	})
}

// Guards against a plan that nobody can read, and that takes the worker down.
func TestAPlanThatCannotBeReadEndsItsRunOnly(t *testing.T) {
	for _, plan := range []string{`{"jobs":[]}`, `[]`, `"plan"`, `null`, `{"id":"r1","jobs":{}}`} {
		synctest.Test(t, func(t *testing.T) {
			mock := &lightningMock{plan: plan, runs: `{"id":"r1","token":"x.y.z"}`, events: make(chan string, 1000)}
			listener := wstest.Serve(t, mock)
			worker, err := phxworker.New(phxworker.Config{URL: "ws://lightning.test/worker", Secret: "s", Transport: phxworker.Transport{NetDial: listener.DialContext}, Engine: phxworker.Func(newGate().hold)})
			require.NoError(t, err)
			ctx, stop := context.WithTimeout(t.Context(), time.Minute)
			defer stop()
			require.NoError(t, worker.Run(ctx))
			require.Equal(t, map[phxworker.Reason]int{"exception": 1}, worker.Stats().Ended)
			require.Equal(t, "PlanError", worker.Stats().Results[0].Type)
		})
	}
}
