package channel

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
)

// step is one line of a recording.
type step struct {
	conn       string // changes with each connection
	fromClient bool
	message    []byte // as recorded
	frame      frame.Frame
	closed     int // the close code, if the connection ended here
}

// phoenixSteps reads what phoenix.js did; the connections after the third
// carry raw frames that no client of the kind would send.
func phoenixSteps(t *testing.T, path string) (steps []step) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range strings.Lines(string(data)) {
		line = strings.TrimRight(line, "\n")
		if m := endStep.FindStringSubmatch(line); m != nil {
			code, err := strconv.Atoi(m[2])
			require.NoError(t, err)
			steps = append(steps, step{conn: m[1], closed: code})
		}
		m := textStep.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		if m[1] == "ws4" {
			break
		}
		message, binary := []byte(m[4]), m[3] != "TXT"
		if binary {
			message, err = hex.DecodeString(m[4])
			require.NoError(t, err)
		}
		steps = append(steps, step{conn: m[1], fromClient: m[2] == "C->S", message: message, frame: decodeStep(t, message, binary, m[2] == "C->S")})
	}
	return steps
}

// TestRecordedFramesOfOthersDoNoHarm plays what the server sent to clients that
// broke the rules with raw frames. To ours they are replies to nobody and
// topics it has not joined.
func TestRecordedFramesOfOthersDoNoHarm(t *testing.T) {
	for _, name := range []string{"cowboy", "bandit"} {
		t.Run(name, func(t *testing.T) {
			data, err := os.ReadFile("frame/testdata/phoenix-1.7.24-" + name + ".txt")
			require.NoError(t, err)
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				socket, topic, p, _ := joined(t, s, s.config())
				played := 0
				for line := range strings.Lines(string(data)) {
					m := textStep.FindStringSubmatch(strings.TrimRight(line, "\n"))
					// Section 13 speaks version 1 of the serializer, in objects.
					if m == nil || m[2] != "S->C" || m[3] != "TXT" || !strings.HasPrefix(m[4], "[") {
						continue
					}
					p.send("%s", m[4])
					played++
				}
				require.Greater(t, played, 60)
				pushing := asyncPush(topic, "claim", nil)
				p.ok(p.expect("room:1", "claim"), `{}`)
				require.NoError(t, (<-pushing).err)
				require.Empty(t, topic.Messages())
				status, _ := socket.Status()
				require.Equal(t, 1, status.Connections)
				require.Greater(t, socket.Stats().Unknown, uint64(50))
			})
		})
	}
}

func workerSteps(t *testing.T, path string) (steps []step) {
	data, err := os.ReadFile(path)
	require.NoError(t, err)
	for line := range bytes.Lines(data) {
		var entry struct{ Dir, Frame string }
		require.NoError(t, json.Unmarshal(line, &entry))
		if !strings.HasPrefix(entry.Frame, "#") {
			fromClient := entry.Dir == "c2s"
			steps = append(steps, step{fromClient: fromClient, message: []byte(entry.Frame), frame: decodeStep(t, []byte(entry.Frame), false, fromClient)})
		}
	}
	return steps
}

func decodeStep(t *testing.T, message []byte, binary, fromClient bool) frame.Frame {
	decode := frame.Decode
	if fromClient {
		decode = frame.DecodePush
	}
	f, err := decode(message, binary)
	require.NoError(t, err, "%s", message)
	return f
}

// The recordings show OpenFn's and Phoenix's own JavaScript clients against a
// real Phoenix server and against lightning-mock. Here the server's side of
// them is played to our client, which is made to do what the recorded
// client did. Only the refs differ, for each client counts its own.

var (
	textStep = regexp.MustCompile(`^ *\d+ms \[(ws\d+)\] (C->S|S->C) (TXT|BIN \d+B hex) (.*)$`)
	endStep  = regexp.MustCompile(`^ *\d+ms \[(ws\d+)\] CLOSED code (\d+)`)
)

func TestReplayOfRecordedSessions(t *testing.T) {
	tests := []struct {
		name  string
		steps []step
	}{
		{name: "Phoenix on cowboy", steps: phoenixSteps(t, "frame/testdata/phoenix-1.7.24-cowboy.txt")},
		{name: "Phoenix on bandit", steps: phoenixSteps(t, "frame/testdata/phoenix-1.7.24-bandit.txt")},
		{name: "lightning-mock, one run", steps: workerSteps(t, "testdata/ws-worker-1.25.0-one-run.ndjson")},
		{name: "lightning-mock, two steps", steps: workerSteps(t, "testdata/ws-worker-1.25.0-two-steps.ndjson")},
		{name: "lightning-mock, real engine", steps: workerSteps(t, "testdata/ws-worker-1.25.0-real-engine.ndjson")},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.NotEmpty(t, tt.steps)
			synctest.Test(t, func(t *testing.T) {
				s := newServer(t)
				r := &replay{
					t: t, server: s, socket: s.open(s.config()), conn: tt.steps[0].conn,
					topics: map[string]*Topic{}, joining: map[string]<-chan outcome[*Topic]{},
					refs: map[frame.Ref]frame.Ref{}, pushes: map[frame.Ref]<-chan outcome[Reply]{},
				}
				r.peer = s.accept()
				for _, step := range tt.steps {
					r.play(step)
				}
				go func() { _, _, _ = r.peer.ws.ReadMessage() }()
				require.NoError(t, r.socket.Close())
				for ref, push := range r.pushes { // those that the recording leaves without an answer
					require.ErrorIs(t, (<-push).err, ErrOutcomeUnknown, "push %s", ref)
				}
				require.Zero(t, r.socket.Stats().Stale)
			})
		})
	}
}

type replay struct {
	t       *testing.T
	server  *server
	socket  *Socket
	peer    *peer
	conn    string
	topics  map[string]*Topic // those joined
	joining map[string]<-chan outcome[*Topic]
	pushes  map[frame.Ref]<-chan outcome[Reply] // by recorded ref
	refs    map[frame.Ref]frame.Ref             // ours, by recorded ref
	ahead   []frame.Frame                       // of the recorded client, not yet seen of ours
}

func (r *replay) play(s step) {
	switch f := s.frame; {
	case s.closed != 0:
		if s.conn == r.conn && r.conn != "ws3" { // which its client closed
			r.end(s.closed)
		}
	case f.Topic == frame.Control: // each client beats in its own time
	case s.fromClient:
		r.do(f)
	case f.IsReply():
		r.answer(s)
	default:
		r.tell(s)
	}
	synctest.Wait()
	r.collect()
}

// end is the end of one connection; ours must make the next.
func (r *replay) end(code int) {
	if code == websocket.CloseAbnormalClosure {
		r.peer.drop()
	} else {
		r.peer.close(code)
	}
	r.peer = r.server.accept()
	r.conn = map[string]string{"ws1": "ws2", "ws2": "ws3"}[r.conn]
}

// do has our client do what the recorded one did, unless it does so by itself,
// as it rejoins, or never does so, as it leaves what it did not join.
func (r *replay) do(f frame.Frame) {
	topic := r.topics[f.Topic]
	if topic != nil && topic.Err() != nil {
		topic = nil
	}
	payload := any(json.RawMessage(f.Payload))
	if f.Binary {
		payload = Binary(f.Payload)
	}
	switch {
	case f.Event == frame.Join:
		if topic == nil && r.joining[f.Topic] == nil {
			r.joining[f.Topic] = asyncJoin(r.socket, f.Topic, payload)
		}
	case topic == nil:
		require.Equal(r.t, frame.Leave, f.Event)
		return
	case f.Event == frame.Leave:
		delete(r.topics, f.Topic)
		go func() { _ = topic.Leave(r.t.Context()) }()
	default:
		r.pushes[f.Ref] = asyncPush(topic, f.Event, payload)
	}
	r.ahead = append(r.ahead, f)
}

// answer sends a recorded reply, once our client has sent what it answers.
func (r *replay) answer(s step) {
	f := s.frame
	for r.refs[f.Ref] == "" {
		if !r.expected(f.Ref) {
			return // it answers something our client does not send
		}
		r.meet(r.peer.read())
	}
	r.send(s)
	push := r.pushes[f.Ref]
	if push == nil {
		return
	}
	delete(r.pushes, f.Ref)
	got := <-push
	if f.Status == frame.OK {
		require.NoError(r.t, got.err)
		require.Equal(r.t, f.Payload, got.value.Response)
		require.Equal(r.t, f.Binary, got.value.Binary)
		return
	}
	var refused *RefusedError
	require.ErrorAs(r.t, got.err, &refused)
	require.Equal(r.t, string(f.Payload), string(refused.Response))
}

// tell sends what a recorded server sent on its own.
func (r *replay) tell(s step) {
	r.send(s)
	f := s.frame
	if f.Event != frame.Error && f.Event != frame.Close {
		m := <-r.topics[f.Topic].Messages()
		require.Equal(r.t, Message{Join: m.Join, Event: f.Event, Payload: f.Payload, Binary: f.Binary}, m)
	}
}

// send sends a message as it was recorded, but for the refs: ours instead of
// those of the recorded client.
func (r *replay) send(s step) {
	ours := func(ref frame.Ref) frame.Ref {
		if known, ok := r.refs[ref]; ok {
			return known
		}
		return ref
	}
	f := s.frame
	f.JoinRef, f.Ref = ours(f.JoinRef), ours(f.Ref)
	if f.Binary {
		message, err := frame.Append(nil, &f)
		require.NoError(r.t, err)
		require.NoError(r.t, r.peer.ws.WriteMessage(websocket.BinaryMessage, message))
		return
	}
	tokens := bytes.SplitN(s.message, []byte(","), 3)
	for i, ref := range []frame.Ref{f.JoinRef, f.Ref} {
		if ref != "" {
			tokens[i] = []byte(ref)
		}
	}
	tokens[0] = append([]byte("["), bytes.TrimPrefix(tokens[0], []byte("["))...)
	require.NoError(r.t, r.peer.ws.WriteMessage(websocket.TextMessage, bytes.Join(tokens, []byte(","))))
}

func (r *replay) expected(ref frame.Ref) bool {
	for _, f := range r.ahead {
		if f.Ref == ref {
			return true
		}
	}
	return false
}

// meet ties a frame of our client to the recorded one, which must be the same
// but for its refs.
func (r *replay) meet(f frame.Frame) {
	for i, want := range r.ahead {
		if want.Topic == f.Topic && want.Event == f.Event {
			require.Equal(r.t, string(want.Payload), string(f.Payload))
			require.Equal(r.t, want.Binary, f.Binary)
			require.Equal(r.t, r.refs[want.JoinRef] == f.JoinRef, want.Event != frame.Join)
			r.refs[want.Ref] = f.Ref
			r.ahead = append(r.ahead[:i:i], r.ahead[i+1:]...)
			return
		}
	}
	require.Failf(r.t, "the recorded client did not send this", "%s %s", f.Topic, f.Event)
}

// collect takes up the joins that have come about.
func (r *replay) collect() {
	for name, joining := range r.joining {
		select {
		case got := <-joining:
			delete(r.joining, name)
			if got.err == nil {
				r.topics[name] = got.value
			}
		default:
		}
	}
}
