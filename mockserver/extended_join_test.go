package mockserver_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver"
)

// What is agreed on is what both have named and what belongs to the topic.
func TestExtensionsAreAgreedOnAtTheJoin(t *testing.T) {
	const all = `{"extensions":{"attempt":{"v":1},"claim_ack":{"v":1,"timeout_ms":20000},"drain":{"v":1},` +
		`"lease":{"v":1,"duration_ms":1200000},"longpoll":{"v":1,"max_wait_ms":20000},"release":{"v":1},` +
		`"status":{"v":1,"interval_ms":15000,"timeout_ms":30000}}}`
	tests := []struct {
		name    string
		server  []string // nil: all
		payload string
		want    string
	}{
		{name: "nothing offered", payload: `{"capacity":5,"queues":{"*":5}}`, want: `{}`},
		{name: "no object", payload: `[]`, want: `{}`},
		{name: "an offer that is none", payload: `{"extensions":["lease"]}`, want: `{}`},
		{name: "all", payload: `{"extensions":{` + everyQueueExtension + `,` + everyRunExtension + `}}`, want: all},
		{name: "one", payload: `{"extensions":{"drain":1}}`, want: `{"extensions":{"drain":{"v":1}}}`},
		{name: "a later version is this one, too", payload: `{"extensions":{"drain":3}}`, want: `{"extensions":{"drain":{"v":1}}}`},
		{name: "no version", payload: `{"extensions":{"drain":0,"lease":"1","status":null}}`, want: `{}`},
		{name: "unknown", payload: `{"extensions":{"telepathy":1}}`, want: `{}`},
		{name: "of the other topic", payload: `{"extensions":{"cancel":1,"notify":1}}`, want: `{}`},
		{name: "not announced", server: []string{"lease"}, payload: `{"extensions":{"lease":1,"drain":1}}`, want: `{"extensions":{"lease":{"v":1,"duration_ms":1200000}}}`},
		{name: "none announced", server: []string{}, payload: `{"extensions":{"lease":1,"drain":1}}`, want: `{}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			inExtended(t, mockserver.Config{Extensions: tt.server}, nil, func(t *testing.T, m *inMemory) {
				c := m.peer("w")
				require.Equal(t, "ok "+tt.want, c.answer("worker:queue", frame.Join, tt.payload))
			})
		})
	}
	t.Run("of a run", func(t *testing.T) {
		inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *inMemory) {
			c := m.queued("w", everyQueueExtension)
			r := c.claim()
			require.Equal(t, `ok {"extensions":{"cancel":{"v":1},"lease":{"v":1,"duration_ms":1200000},"notify":{"v":1}}}`,
				c.joinRun(r, everyRunExtension+`,"status":1`))
			require.Equal(t, `ok {"extensions":{"notify":{"v":1}}}`, c.joinRun(r, `"notify":1`), "anew at every join")
			require.Equal(t, `ok {}`, c.answer(r.topic(), frame.Join, `{"token":"`+r.Token+`"}`))
		})
	})
	t.Run("in Lightning's own mode", func(t *testing.T) {
		m := newInMemory(t, mockserver.Config{Mode: mockserver.Lightning})
		require.Equal(t, `{}`, string(m.connect().join("worker:queue", `{"extensions":{`+everyQueueExtension+`}}`).Payload))
		require.Nil(t, m.Workers())
	})
}

// An event of an extension that was not agreed on with this very join crashes the
// channel, as any unknown event does in Phoenix.
func TestEventsThatWereNotAgreedOnCrash(t *testing.T) {
	events := map[string]string{"run:release": `"release":1`, "worker:status": `"status":1`, "run:renew": `"lease":1`}
	for event, extension := range events {
		t.Run(event, func(t *testing.T) {
			inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *inMemory) {
				c := m.queued("w", everyQueueExtension)
				r := c.claim()
				topic, payload := "worker:queue", `{"id":"r1","token":"`+r.Token+`","reason":"drain"}`
				if event == "run:renew" {
					topic = r.topic()
				}
				join := `{"token":"` + r.Token + `","extensions":{` + extension + `}}`
				require.Equal(t, "ok", c.ask(topic, frame.Join, join).Status)
				require.Equal(t, "ok", c.ask(topic, event, payload).Status)
			})
			inExtended(t, mockserver.Config{}, []string{"r1"}, func(t *testing.T, m *inMemory) {
				c := m.queued("w", everyQueueExtension)
				r := c.claim()
				topic := "worker:queue"
				if event == "run:renew" {
					topic = r.topic()
				}
				require.Equal(t, "ok", c.ask(topic, frame.Join, `{"token":"`+r.Token+`"}`).Status)
				ref := c.send(topic, event, `{"id":"r1","token":"`+r.Token+`","reason":"drain"}`)
				require.Len(t, c.pushed(topic, frame.Error), 1)
				_, answered := c.replied(ref)
				require.False(t, answered)
				require.Equal(t, mockserver.State("claimed"), m.record("r1").State)
			})
		})
	}
}

// A client that offers nothing sees in extended mode what it sees in Lightning's own, to
// the byte, and its runs are treated likewise.
func TestPlainClientsMeetNoExtension(t *testing.T) {
	session := func(mode mockserver.Mode) (frames []string, record mockserver.RunRecord) {
		m := newInMemory(t, mockserver.Config{Mode: mode, OpaqueTokens: true, WakeDebounce: -1})
		c, id := m.claimed(mockserver.Run{Plan: plan("r1")})
		c.ok("run:"+id, "fetch:plan", `{}`)
		require.Equal(t, frame.Error, c.exchange("run:"+id, "run:renew", `{}`).Event)
		require.Equal(t, "ok", c.join("run:"+id, `{"token":"`+tokenOf(m)+`"}`).Status)
		c.ok("run:"+id, "run:complete", `{"reason":"success"}`)
		require.Empty(t, c.claim(`{"demand":1,"worker_name":null,"wait_ms":10000}`), "no wait was agreed on")
		require.Equal(t, frame.Error, c.exchange("worker:queue", "worker:status", `{}`).Event)
		for _, x := range m.Transcript() {
			frames = append(frames, x.Direction.String()+" "+withoutTokens(string(x.Data)))
		}
		return frames, m.record(id)
	}
	plain, _ := session(mockserver.Lightning)
	extended, record := session(mockserver.Extended)
	require.Equal(t, plain, extended)
	require.Equal(t, []mockserver.End{mockserver.Completed}, ends(record))
	require.Zero(t, record.Owners[0].LeaseUntil)
}

func TestUnknownExtensionsAndModesAreRefused(t *testing.T) {
	_, err := mockserver.New(mockserver.Config{Mode: mockserver.Extended, Extensions: []string{"telepathy"}})
	require.ErrorContains(t, err, `there is no extension "telepathy": they are lease, release, `)
	_, err = mockserver.New(mockserver.Config{Mode: "psychic"})
	require.ErrorContains(t, err, `there is no mode "psychic": it is lightning or extended`)
}
