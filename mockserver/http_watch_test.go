package mockserver_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

// listed returns the ids that GET /runs answers, and the cursor of the next page.
func listed(t *testing.T, s http.Handler, query string) (ids []string, next uint64) {
	t.Helper()
	status, body := mocktest.Call(t, s, "GET", "/runs"+query, "")
	require.Equal(t, 200, status, body)
	var page mockserver.RunPage
	require.NoError(t, json.Unmarshal([]byte(body), &page))
	ids = []string{}
	for _, r := range page.Runs {
		ids = append(ids, r.ID)
	}
	return ids, page.Next
}

func TestRunsAreListedNewestFirst(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, KeepRuns: 2, MaxQueued: -1})
	c, _ := m.Claimed(mockserver.Run{Plan: json.RawMessage(`{"id":"failed","name":"Load Patients","jobs":[]}`)})
	c.OK("run:failed", "run:complete", `{"reason":"fail","error_type":"JobError","error_message":"no such Stock"}`)
	for i := range 3 {
		m.Queue(mockserver.Run{Plan: mocktest.Plan(fmt.Sprint("waits-", i)), Queue: []string{"manual", "other"}[i%2]})
	}
	all := []string{"waits-2", "waits-1", "waits-0", "failed"}
	tests := []struct {
		query string
		want  []string
	}{
		{"", all},
		{"?state=failed", all[3:]},
		{"?state=failed,available&state=lost", all},
		{"?state=success", []string{}},
		{"?queue=other", all[1:2]},
		{"?queue=manual&q=WAITS-0", all[2:3]},
		{"?q=patients", all[3:]},
		{"?q=stock", all[3:]},
		{"?q=joberror", all[3:]},
		{"?worker=mighty-worker", all[3:]},
		{"?worker=w", all[3:]},
		{"?worker=x", []string{}},
		{"?state=&queue=&q=&worker=&limit=&after=", all},
	}
	for _, tt := range tests {
		ids, next := listed(t, m, tt.query)
		require.Equal(t, tt.want, ids, tt.query)
		require.Zero(t, next, tt.query)
	}

	first, next := listed(t, m, "?limit=3")
	require.Equal(t, all[:3], first)
	second, next := listed(t, m, fmt.Sprint("?limit=3&after=", next))
	require.Equal(t, all[3:], second)
	require.Zero(t, next)

	for query, want := range map[string]string{
		"?state=nope":  `there is no state \"nope\"; there are available, claimed,`,
		"?limit=0":     `limit \"0\" is not a number from 1 to 1000`,
		"?limit=10000": `is not a number from 1 to 1000`,
		"?after=x":     `after \"x\" is not`,
		"?sate=failed": `there is no parameter \"sate\"; there are state,`,
	} {
		status, body := mocktest.Call(t, m, "GET", "/runs"+query, "")
		require.Equal(t, 400, status, query)
		require.Contains(t, body, want)
	}

	for _, id := range []string{"waits-0", "waits-1"} {
		require.NoError(t, m.Cancel(id, ""))
	}
	ids, _ := listed(t, m, "")
	require.Equal(t, all[:3], ids, "the oldest that has ended is forgotten first")
	require.NoError(t, m.Cancel("waits-2", ""))
	ids, _ = listed(t, m, "")
	require.Equal(t, []string{"waits-2", "waits-1"}, ids)
}

// reader reads server-sent events.
type reader struct {
	t    *testing.T
	body *bufio.Scanner
	id   string
}

// next returns the next event, as "kind data".
func (r *reader) next() string {
	r.t.Helper()
	var kind string
	for r.body.Scan() {
		field, value, _ := strings.Cut(r.body.Text(), ": ")
		switch field {
		case "id":
			r.id = value
		case "event":
			kind = value
		case "data":
			return kind + " " + value
		}
	}
	require.NoError(r.t, r.body.Err())
	require.FailNow(r.t, "the events have ended")
	return ""
}

func follow(t *testing.T, m *mocktest.Server, query string) (*reader, func()) {
	t.Helper()
	client := &http.Client{Transport: &http.Transport{DialContext: m.Listener.DialContext, DisableKeepAlives: true}}
	ctx, cancel := context.WithCancel(t.Context())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://mock/events"+query, nil)
	require.NoError(t, err)
	response, err := client.Do(request)
	require.NoError(t, err)
	require.Equal(t, 200, response.StatusCode)
	require.Equal(t, "text/event-stream", response.Header.Get("Content-Type"))
	return &reader{t: t, body: bufio.NewScanner(response.Body)}, func() {
		cancel()
		_ = response.Body.Close()
	}
}

func TestWhoFollowsTheEventsSeesThemAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
		events, stop := follow(t, m, "")
		_, err := m.AddFault(fault.Rule{Event: "run:log", Action: fault.Withhold})
		require.NoError(t, err)
		c, _ := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1")})
		require.Contains(t, events.next(), `run {"id":"r1","state":"available"`)
		require.Equal(t, `worker {"worker":"mighty-worker"}`, events.next())
		require.Contains(t, events.next(), `"state":"claimed"`)
		c.OK("run:r1", "run:start", `{}`)
		require.Contains(t, events.next(), `"state":"started"`)
		require.Equal(t, `event {"run":"r1","event":"run:start","status":"ok"}`, events.next())
		c.Send("run:r1", "run:log", `{"message":["x"],"timestamp":"1795168192891559"}`)
		require.Contains(t, events.next(), `"event":"run:log","topic":"run:r1"`)
		require.Equal(t, `event {"run":"r1","event":"run:log","status":"ok"}`, events.next())
		c.OK("run:r1", "run:complete", `{"reason":"success"}`)
		require.Contains(t, events.next(), `"state":"success","reason":"success"`)
		seen := events.id
		stop()

		m.Queue(mockserver.Run{Plan: mocktest.Plan("r2")})
		events, stop = follow(t, m, "?run=r2&after="+seen)
		require.Contains(t, events.next(), `run {"id":"r2","state":"available"`, "and nothing of r1")
		stop()
		for _, bad := range []string{"x", "-1"} {
			status, body := mocktest.Call(t, m, "GET", "/events?after="+bad, "")
			require.Equal(t, 400, status, body)
		}
	})
}

// Nothing is kept for one that is slow, and it is told how much it has missed.
func TestWhoFollowsTheEventsTooSlowlyIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, KeepRuns: 1, MaxQueued: -1})
		for i := range 5000 {
			m.Queue(mockserver.Run{Plan: mocktest.Plan(fmt.Sprint("r", i))})
		}
		events, stop := follow(t, m, "?after=1")
		require.Equal(t, `missed {"changes":903}`, events.next())
		require.Contains(t, events.next(), `run {"id":"r904"`)
		stop()
		events, stop = follow(t, m, "?after=100000")
		require.Equal(t, `missed {"changes":null}`, events.next())
		m.Queue(mockserver.Run{Plan: mocktest.Plan("new")})
		require.Contains(t, events.next(), `run {"id":"new"`, "a number of a server that was here before")
		stop()
	})
}

// Guards against a client that goes on in the middle of what another server did, whose numbers are as high by then.
func TestWhoFollowedAnotherServerIsTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
		events, stop := follow(t, m, "")
		m.Queue(mockserver.Run{Plan: mocktest.Plan("before")})
		events.next()
		stop()
		m = mocktest.New(t, mockserver.Config{OpaqueTokens: true})
		for _, id := range []string{"r1", "r2"} {
			m.Queue(mockserver.Run{Plan: mocktest.Plan(id)})
		}
		events, stop = follow(t, m, "?after="+events.id)
		require.Equal(t, `missed {"changes":null}`, events.next())
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r3")})
		require.Contains(t, events.next(), `run {"id":"r3"`)
		stop()
	})
}

// Guards against clients that connect and read nothing: each would hold a goroutine for ever.
func TestWhoReadsNoEventsIsDropped(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, MaxQueued: -1})
		conn, err := m.Listener.DialContext(t.Context(), "tcp", "mock")
		require.NoError(t, err)
		defer conn.Close()
		_, err = fmt.Fprint(conn, "GET /events HTTP/1.1\r\nHost: mock\r\n\r\n")
		require.NoError(t, err)
		m.Queue(mockserver.Run{Plan: mocktest.Plan("r")})
		time.Sleep(11 * time.Second)
		synctest.Wait()
		_, err = conn.Write([]byte("x"))
		require.Error(t, err, "the server has closed the connection")
	})
}

func TestEndedServersEndTheirEvents(t *testing.T) {
	s := mockserver.NewTest(t, mocktest.Config(mockserver.Config{}))
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	response, err := client.Get(s.HTTPURL() + "/events")
	require.NoError(t, err)
	defer response.Body.Close()
	begin := time.Now()
	require.NoError(t, s.Close())
	require.Less(t, time.Since(begin), 900*time.Millisecond, "a client that follows does not hold up the end")
}

func TestTheTranscriptOfARun(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, TranscriptLimit: 12, WakeDebounce: -1})
	c, _ := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1"), Dataclip: json.RawMessage(`{"a":1}`)})
	c.OK("run:r1", "fetch:dataclip", `{}`)
	c.OK("run:r1", "run:complete", `{"reason":"success"}`)
	var got struct {
		Run    string
		Whole  bool
		Frames []struct {
			Direction, Event, Text string
			Base64                 []byte
			Cut                    bool
		}
	}
	read := func() {
		status, body := mocktest.Call(t, m, "GET", "/run/r1/transcript", "")
		require.Equal(t, 200, status, body)
		require.NoError(t, json.Unmarshal([]byte(body), &got))
	}
	read()
	require.True(t, got.Whole)
	var seen []string
	for _, f := range got.Frames {
		seen = append(seen, f.Direction+" "+f.Event)
		require.False(t, f.Cut)
	}
	const ask, answer = "from client ", "to client phx_reply"
	require.Equal(t, []string{ask + "phx_join", answer, ask + "fetch:dataclip", answer, ask + "run:complete", answer}, seen)
	require.Contains(t, got.Frames[4].Text, `"run:r1","run:complete",{"reason":"success"}]`)
	require.Contains(t, string(got.Frames[3].Base64), `{"a":1}`)

	c.Claim(`{"demand":1,"worker_name":null}`)
	c.Claim(`{"demand":1,"worker_name":null}`)
	read()
	require.False(t, got.Whole, "some frames are forgotten, of this run perhaps")
	status, _ := mocktest.Call(t, m, "GET", "/run/nope/transcript", "")
	require.Equal(t, 404, status)
}

func TestARunIsQueuedAgain(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
	m.Queue(mockserver.Run{Plan: mocktest.Plan("r1"), Queue: "manual", Priority: mockserver.Immediate, Dataclip: json.RawMessage(`{"a":1}`)})
	again := func(body string) mockserver.RunRecord {
		status, text := mocktest.Call(t, m, "POST", "/run/r1/again", body)
		require.Equal(t, 201, status, text)
		var made struct{ ID string }
		require.NoError(t, json.Unmarshal([]byte(text), &made))
		record, found := m.Inspect(made.ID)
		require.True(t, found)
		require.NotEqual(t, "r1", made.ID)
		require.Equal(t, "manual immediate", record.Queue+" "+record.Priority.String())
		return record
	}
	require.JSONEq(t, `{"a":1}`, string(again("").Input))
	require.JSONEq(t, `{"b":2}`, string(again(`{"b":2}`).Input))
	status, _ := mocktest.Call(t, m, "POST", "/run/nope/again", "")
	require.Equal(t, 404, status)
}

// Guards against an input that was erased, and comes back with a copy while the run goes on.
func TestARunWhoseInputWasErasedIsCopiedWithoutIt(t *testing.T) {
	m := mocktest.New(t, mockserver.Config{OpaqueTokens: true, WipeDataclips: true})
	c, _ := m.Claimed(mockserver.Run{Plan: json.RawMessage(`{"id":"r1","dataclip_id":"d","jobs":[]}`), Dataclip: json.RawMessage(`{"a":1}`)})
	run, err := m.Copy("r1")
	require.NoError(t, err)
	require.JSONEq(t, `{"a":1}`, string(run.Dataclip), "nobody has read it")
	c.Exchange("run:r1", "fetch:dataclip", `{}`)
	run, err = m.Copy("r1")
	require.NoError(t, err)
	require.Nil(t, run.Dataclip)
}

// A worker tells its version and its groups, and the server counts what they claim.
func TestWorkersOfALightning(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := mocktest.New(t, mockserver.Config{OpaqueTokens: true})
		c, _ := m.Claimed(mockserver.Run{Plan: mocktest.Plan("r1")})
		c.Claim(`{"demand":1,"worker_name":"w","queues":["fast_lane"]}`)
		w := m.Workers()[0]
		require.Equal(t, "mighty-worker w [r1]", fmt.Sprint(w.ID, " ", w.Name, " ", w.Runs))
		require.Equal(t, []mockserver.GroupRecord{{Name: "fast_lane", Claims: 1}, {Name: "manual>*", Slots: 5, Running: 1, Claims: 1}}, w.Groups)
		record, _ := m.Inspect("r1")
		require.Equal(t, "manual>* mighty-worker", record.Group+" "+record.Worker)
		require.NoError(t, c.Conn.Close())
		synctest.Wait()
		if len(m.Workers()) > 0 { // in extended mode, for as long as it has runs
			require.Zero(t, m.Workers()[0].Joins)
		}
	})
}

func BenchmarkList(b *testing.B) {
	m, err := mockserver.New(mockserver.Config{OpaqueTokens: true, MaxQueued: -1})
	require.NoError(b, err)
	defer m.Close()
	for i := range 10_000 {
		_, err := m.Enqueue(mockserver.Run{Plan: mocktest.Plan(fmt.Sprint("run-", i))})
		require.NoError(b, err)
	}
	for name, q := range map[string]mockserver.RunQuery{"first": {}, "text": {Text: "nowhere"}, "last": {Text: "run-1"}} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				m.Runs(q)
			}
		})
	}
}
