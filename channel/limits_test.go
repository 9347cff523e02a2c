package channel

import (
	"bytes"
	"fmt"
	"log/slog"
	"math"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
)

const testLimit = 100_000

// large is some text over the read limit of these tests, and small some below it.
var (
	large = strings.Repeat("x", testLimit)
	small = strings.Repeat("x", testLimit-200)
)

// Guards against an answer that takes the connection, and all that shares it, with it, each
// time that it is asked for.
func TestAnAnswerOverTheReadLimitEndsOnlyItsPush(t *testing.T) {
	tests := []struct {
		name     string
		deflate  bool // a few bytes on the wire, over the limit once decompressed
		compress bool
		answer   func(f frame.Frame) []byte
		kind     int
	}{
		{name: "plain", kind: websocket.TextMessage, answer: func(f frame.Frame) []byte {
			return fmt.Appendf(nil, `[%s,%s,"room:1","phx_reply",{"response":%q,"status":"ok"}]`, f.JoinRef, f.Ref, large)
		}},
		{name: "compressed", deflate: true, kind: websocket.TextMessage, answer: func(f frame.Frame) []byte {
			return fmt.Appendf(nil, `[%s,%s,"room:1","phx_reply",{"response":%q,"status":"ok"}]`, f.JoinRef, f.Ref, large)
		}},
		{name: "refused", kind: websocket.TextMessage, answer: func(f frame.Frame) []byte {
			return fmt.Appendf(nil, `[%s,%s,"room:1","phx_reply",{"status":"error","response":%q}]`, f.JoinRef, f.Ref, large)
		}},
		{name: "of lightning-mock", kind: websocket.TextMessage, answer: func(f frame.Frame) []byte {
			return fmt.Appendf(nil, `[%s,%s,"room:1","chan_reply_7",{"status":"ok","response":%q}]`, f.JoinRef, f.Ref, large)
		}},
		{name: "binary", kind: websocket.BinaryMessage, answer: func(f frame.Frame) []byte {
			f.Event, f.Status, f.Payload, f.Binary = frame.Reply, frame.OK, []byte(large), true
			message, err := frame.Append(nil, &f)
			require.NoError(t, err)
			return message
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				s.upgrader.EnableCompression = tt.deflate
				cfg := s.config()
				cfg.ReadLimit = testLimit
				socket, topic, p, _ := joined(t, s, cfg)
				asking := asyncPush(topic, "fetch", nil)
				asked := p.read()
				other := asyncPush(topic, "other", nil)
				waiting := p.read()

				answer := tt.answer(asked)
				require.NoError(t, p.ws.WriteMessage(tt.kind, answer))
				got := <-asking
				require.ErrorIs(t, got.err, ErrOutcomeUnknown)
				var tooLarge *AnswerTooLargeError
				require.ErrorAs(t, got.err, &tooLarge)
				require.Equal(t, AnswerTooLargeError{Topic: "room:1", Event: "fetch", Limit: testLimit}, *tooLarge)
				require.ErrorContains(t, got.err, `channel: sent, but the outcome is unknown: the server's answer to "fetch" on "room:1" has more than 100000 bytes, the limit`)

				p.ok(waiting, fmt.Sprintf("%q", small))
				got = <-other
				require.NoError(t, got.err)
				require.Len(t, got.value.Response, len(small)+2)
				status, _ := socket.Status()
				require.Equal(t, Status{State: Connected, Connections: 1}, status)
			})
		})
	}
}

// A crash and a close are what they are, however long the server's words.
func TestMessagesOverTheReadLimitThatNobodyHasAskedFor(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		var log bytes.Buffer
		cfg := s.config()
		cfg.ReadLimit, cfg.Logger = testLimit, slog.New(slog.NewTextHandler(&log, nil))
		socket, topic, p, join := joined(t, s, cfg)
		p.send(`[null,null,"room:1","tick",%q]`, large)
		p.send(`[null,null,"room:1","tick",%q]`, small)
		m := <-topic.Messages()
		require.Len(t, m.Payload, len(small)+2)
		require.Equal(t, 1, m.Missed, "the one before was too large")
		require.EqualValues(t, 1, socket.Stats().Missed)
		require.Contains(t, log.String(), fmt.Sprintf(`level=WARN msg="a message of the server was too large and was left out" topic=room:1 event=tick bytes=%d limit=%d`, len(large)+30, testLimit))

		p.send(`[null,null,"another","tick",%q]`, large)
		p.send(`[null,"99","another","phx_reply",{"response":%q,"status":"ok"}]`, large)
		p.send(`[%s,null,"room:1","phx_error",%q]`, join.Ref, large)
		p.join("room:1")
		require.EqualValues(t, 2, socket.Stats().Unknown)
		status, _ := socket.Status()
		require.Equal(t, 1, status.Connections)
	})
}

// A message without end is thrown away for so long only; but whoever has asked for it learns
// what it was, and asks no more.
func TestAMessageWithoutEndEndsTheConnection(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.ReadLimit, cfg.discardLimit = testLimit, 3*testLimit
		socket, topic, p, _ := joined(t, s, cfg)
		asking := asyncPush(topic, "fetch", nil)
		asked := p.read()
		other := asyncPush(topic, "other", nil)
		p.read()
		_ = p.ws.WriteMessage(websocket.TextMessage, []byte(okReply(asked, `"`+strings.Repeat(large, 4)+`"`)))

		var tooLarge *AnswerTooLargeError
		got := <-asking
		require.ErrorAs(t, got.err, &tooLarge)
		require.ErrorContains(t, got.err, "has more than 100000 bytes, the limit")
		got = <-other
		require.ErrorIs(t, got.err, ErrOutcomeUnknown)
		require.NotErrorAs(t, got.err, &tooLarge)
		s.accept().join("room:1")
		require.EqualValues(t, 1, socket.Stats().Lost[CauseProtocol])
	})
}

// What cannot be read is no Phoenix message, however long it is.
func TestAMessageOverTheReadLimitWithoutAHead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.ReadLimit = testLimit
		socket, _, p, _ := joined(t, s, cfg)
		require.NoError(t, p.ws.WriteMessage(websocket.TextMessage, []byte(large)))
		s.accept()
		require.EqualValues(t, 1, socket.Stats().Lost[CauseProtocol])
	})
}

// An answer has the limit of what it answers: only some are large, and that to a join is kept for as
// long as the join lasts.
func TestAnAnswerHasTheLimitOfItsEvent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.ReadLimit, cfg.ReadLimits = 100_000, map[string]int64{"fetch": 200_000, "claim": 50_000, "": 20_000}
		socket := s.open(cfg)
		p := s.accept()
		joining := asyncJoin(socket, "room:1", nil)
		p.ok(p.expect("room:1", "phx_join"), `"`+strings.Repeat("x", 20_000)+`"`)
		p.ok(p.expect("room:1", "phx_leave"), "{}") // for the server has let us in
		var tooLarge *AnswerTooLargeError
		got := <-joining
		require.ErrorAs(t, got.err, &tooLarge)
		require.Equal(t, AnswerTooLargeError{Topic: "room:1", Event: frame.Join, Limit: 20_000}, *tooLarge)

		joining = asyncJoin(socket, "room:1", nil)
		p.ok(p.expect("room:1", "phx_join"), `"`+strings.Repeat("x", 19_000)+`"`)
		got = <-joining
		require.NoError(t, got.err)
		topic := got.value
		for _, tt := range []struct {
			event       string
			size, limit int
		}{{"fetch", 99_000, 0}, {"fetch", 101_000, 100_000}, {"claim", 49_000, 0}, {"claim", 51_000, 50_000}, {"other", 19_000, 0}, {"other", 21_000, 20_000}} {
			pushing := asyncPush(topic, tt.event, nil)
			p.ok(p.read(), `"`+strings.Repeat("x", tt.size)+`"`)
			if got := <-pushing; tt.limit == 0 {
				require.NoError(t, got.err, tt)
			} else {
				require.ErrorAs(t, got.err, &tooLarge, tt)
				require.EqualValues(t, tt.limit, tooLarge.Limit, tt)
			}
		}
		p.send(`[null,null,"room:1","tick",%q]`, strings.Repeat("x", 21_000))
		p.send(`[null,null,"room:1","tick",%q]`, strings.Repeat("x", 19_000))
		require.Equal(t, 1, (<-topic.Messages()).Missed)
		status, _ := socket.Status()
		require.Equal(t, 1, status.Connections)
	})
}

// Guards against lines of the log, and reports of runs, that are as long as a server likes.
func TestAReasonIsShort(t *testing.T) {
	for _, response := range []string{`{"reason":%q}`, `%q`, `{"errors":%q}`} {
		e := &RefusedError{Topic: "room:1", Event: "claim", Response: fmt.Appendf(nil, response, strings.Repeat("é", 100_000))}
		require.Less(t, len(e.Reason()), 1100)
		require.Contains(t, e.Error(), "é…")
	}
}

// Guards against a limit that overflows as soon as a byte is added to it.
func TestAReadLimitOfAllThereIs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		cfg := s.config()
		cfg.ReadLimit = math.MaxInt64
		_, topic, p, _ := joined(t, s, cfg)
		asking := asyncPush(topic, "fetch", nil)
		p.ok(p.read(), fmt.Sprintf("%q", large))
		got := <-asking
		require.NoError(t, got.err)
		require.Len(t, got.value.Response, len(large)+2)
	})
}

// Guards against a server that fills the client's memory with what nobody has asked for: a hundred
// topics have room for 64 messages each, of up to 64 MiB.
func TestMessagesThatWaitForTheirReadersAreBoundedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(t)
		socket := s.open(s.config())
		p := s.accept()
		var topics []*Topic
		for n := range 10 {
			name := fmt.Sprintf("room:%d", n)
			joining := asyncJoin(socket, name, nil)
			p.ok(p.expect(name, "phx_join"), `{}`)
			got := <-joining
			require.NoError(t, got.err)
			topics = append(topics, got.value)
		}
		payload := strings.Repeat("x", 1<<20)
		for range 5 {
			for _, topic := range topics {
				p.send(`[null,null,%q,"tick",%q]`, topic.Name(), payload)
			}
		}
		p.send(`[null,null,"room:9","tick","small"]`)
		synctest.Wait()
		bytes, last := 0, ""
		for _, topic := range topics {
			for len(topic.Messages()) > 0 {
				m := <-topic.Messages()
				bytes, last = bytes+len(m.Payload), string(m.Payload)
			}
		}
		require.LessOrEqual(t, bytes, 16<<20)
		require.Greater(t, bytes, 14<<20)
		require.Equal(t, `"small"`, last, "there is always room for what is small")
		require.EqualValues(t, 10*5-15, socket.Stats().Missed)

		p.send(`[null,null,"room:0","tick","%s%[1]s%[1]s"]`, strings.Repeat(payload, 6)) // alone, it may be as large as it likes
		require.Len(t, (<-topics[0].Messages()).Payload, 18<<20+2)
	})
}
