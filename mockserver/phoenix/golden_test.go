package phoenix

import (
	"bufio"
	"encoding/hex"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
)

// TestRecordedSessions sends what the official client sent to real Phoenix
// servers and wants back what those servers sent, byte for byte and in the
// same order.
func TestRecordedSessions(t *testing.T) {
	const cowboy, bandit = "phoenix-1.7.24-cowboy.txt", "phoenix-1.7.24-bandit.txt"
	tests := []struct {
		name, file, ws string
		from, to       string // the lines between which to replay, by what they contain
		before         string // sent and answered first
	}{
		{name: "a run, then a crash and a rejoin", file: cowboy, ws: "ws1", from: "#### 1 ", to: "#### 2b"},
		{name: "the same on bandit", file: bandit, ws: "ws1", from: "#### 1 ", to: "#### 2b"},
		{name: "second channel, refused joins", file: cowboy, ws: "ws3", from: "[ws3] CONNECT", to: `POST /mode {"join":"error"}`},
		// Leave and join follow at once here, and cowboy's scheduling let the
		// join overtake the leave; bandit's did not, and neither do we.
		{
			name: "refused and crashed joins on bandit", file: bandit, ws: "ws3",
			from: "#### 7 ", to: `POST /mode {"claim":"silent"}`, before: `["43","43","worker:queue","phx_join",{}]`,
		},
		{name: "joined twice, stale refs, no topic, left", file: cowboy, ws: "ws4", from: "#### 8", to: "#### 12"},
		{name: "joined twice on bandit", file: bandit, ws: "ws4", from: "#### 8", to: "#### 12"},
		{name: "unknown binary frame", file: cowboy, ws: "ws5", from: "#### 11b", to: "#### 12"},
		{name: "four elements", file: cowboy, ws: "ws6", from: "#### 11c", to: "#### 12"},
		{name: "missing key", file: cowboy, ws: "ws7", from: "#### 11d", to: "#### 12"},
		{name: "missing key on bandit", file: bandit, ws: "ws7", from: "#### 11d", to: "#### 12"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lines := recordedLines(t, tt.file, tt.from, tt.to)
			s := newServer(t, Config{})
			s.app.answers, s.app.claims = recordedAnswers(t, lines)
			c := s.dial(websocket.Dialer{})
			if tt.before != "" {
				c.send(tt.before)
				_, _, err := c.ReadMessage()
				require.NoError(t, err)
			}
			require.Positive(t, replay(t, s, c, tt.ws, lines), "nothing was replayed")
		})
	}
}

var recordedLine = regexp.MustCompile(`^ *\d+ms (?:\[(\w+)\] )?(.*)$`)

// replay plays the client's part and checks the server's; it returns how many of
// the server's messages it has checked.
func replay(t *testing.T, s *server, c *client, ws string, lines []string) (checked int) {
	pongs := make(chan string, 1)
	c.SetPongHandler(func(payload string) error {
		pongs <- payload
		return nil
	})
	for _, line := range lines {
		m := recordedLine.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		who, what := m[1], m[2]
		kind, text, _ := strings.Cut(what, " TXT ")
		switch {
		case who == "http" && strings.HasPrefix(what, "POST /mode"):
			join, claim := "", ""
			if strings.Contains(what, `"claim":"error"`) {
				claim = "error"
			} else if _, mode, ok := strings.Cut(what, `{"join":"`); ok {
				join, _, _ = strings.Cut(mode, `"`)
			}
			s.app.set(join, claim)
		case strings.Contains(what, "ws-level ping"):
			require.NoError(t, c.WriteControl(websocket.PingMessage, []byte("abc"), time.Now().Add(time.Second)))
		case who != ws:
		case kind == "C->S":
			c.send(text)
		case kind == "S->C":
			if strings.Contains(text, "work-available") {
				s.app.wake()
			}
			c.expect(text)
			checked++
		case strings.Contains(what, " BIN "):
			_, digits, _ := strings.Cut(what, "hex ")
			data, err := hex.DecodeString(digits)
			require.NoError(t, err)
			if strings.HasPrefix(what, "C->S") {
				require.NoError(t, c.WriteMessage(websocket.BinaryMessage, data))
				continue
			}
			kind, got, err := c.ReadMessage()
			require.NoError(t, err)
			require.Equal(t, websocket.BinaryMessage, kind)
			require.Equal(t, data, got)
			checked++
		case strings.HasPrefix(what, "C->S CLOSE frame 1000"):
			require.NoError(t, c.WriteControl(websocket.CloseMessage, websocket.FormatCloseMessage(1000, "bye"), time.Now().Add(time.Second)))
		case strings.HasPrefix(what, "CLOSED code 1011"):
			require.Equal(t, 1011, c.closed())
			checked++
		case strings.HasPrefix(what, "CLOSED code 1000"):
			require.Equal(t, 1000, c.closed())
			checked++
		}
	}
	select {
	case payload := <-pongs:
		require.Equal(t, "abc", payload)
	default:
		require.NotContains(t, strings.Join(lines, "\n"), "ws PONG")
	}
	return checked
}

// recordedAnswers takes from a recording what its application, rather than
// Phoenix, decided.
func recordedAnswers(t *testing.T, lines []string) (answers, claims map[string]Reply) {
	answers, claims = make(map[string]Reply), make(map[string]Reply)
	pushes := make(map[frame.Ref]frame.Frame)
	for _, line := range lines {
		_, text, ok := strings.Cut(line, " TXT ")
		if !ok {
			if _, digits, ok := strings.Cut(line, "S->C BIN 68B hex "); ok {
				data, err := hex.DecodeString(digits)
				require.NoError(t, err)
				f, err := frame.Decode(data, true)
				require.NoError(t, err)
				answers[pushes[f.Ref].Event] = Bytes(f.Payload)
			}
			continue
		}
		f, err := frame.Decode([]byte(text), false)
		if err != nil || f.Ref == "" {
			continue
		}
		push, known := pushes[f.Ref]
		switch {
		case !f.IsReply():
			pushes[f.Ref] = f
		case !known || f.Status != frame.OK:
		case push.Event == "claim" && strings.Contains(string(f.Payload), `"token"`):
			_, queues, _ := strings.Cut(string(push.Payload), `"queues":`)
			claims[strings.TrimSuffix(queues, "}")] = OK(f.Payload)
		case strings.HasPrefix(push.Event, "fetch:"):
			answers[push.Event] = OK(f.Payload)
		}
	}
	return answers, claims
}

func recordedLines(t *testing.T, file, from, to string) (lines []string) {
	t.Helper()
	f, err := os.Open("testdata/" + file)
	require.NoError(t, err)
	defer func() { require.NoError(t, f.Close()) }()
	scanner := bufio.NewScanner(f)
	inside := false
	for scanner.Scan() {
		line := scanner.Text()
		inside = inside || strings.Contains(line, from)
		if inside && strings.Contains(line, to) {
			return lines
		}
		if inside {
			lines = append(lines, line)
		}
	}
	require.NoError(t, scanner.Err())
	require.Failf(t, "not in the recording", "%s: %s … %s", file, from, to)
	return nil
}
