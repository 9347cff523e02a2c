package channel

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"

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
