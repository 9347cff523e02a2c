package mockserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver/lightning"
)

// runsParameters are what may stand in the query of GET /runs.
var runsParameters = []string{"state", "queue", "worker", "q", "after", "limit"}

func (s *Server) getRuns(w http.ResponseWriter, r *http.Request) {
	query, err := ParseRunQuery(r.URL.Query())
	if err != nil {
		writeJSON(w, http.StatusBadRequest, errorBody(err.Error()))
		return
	}
	writeJSON(w, http.StatusOK, s.Runs(query))
}

// ParseRunQuery reads the parameters of GET /runs. Empty ones count as absent; state may stand there more than once, or have
// several with commas between. The error says which one is wrong.
func ParseRunQuery(values url.Values) (RunQuery, error) {
	for name := range values {
		if !slices.Contains(runsParameters, name) {
			return RunQuery{}, fmt.Errorf("there is no parameter %q; there are %s", name, strings.Join(runsParameters, ", "))
		}
	}
	q := RunQuery{Queue: values.Get("queue"), Worker: values.Get("worker"), Text: strings.TrimSpace(values.Get("q"))}
	for _, text := range values["state"] {
		for name := range strings.FieldsFuncSeq(text, func(r rune) bool { return r == ',' }) {
			if !slices.Contains(lightning.States, State(name)) {
				return q, fmt.Errorf("there is no state %q; there are %s", name, joined(lightning.States))
			}
			q.States = append(q.States, State(name))
		}
	}
	var err error
	if text := values.Get("limit"); text != "" {
		if q.Limit, err = strconv.Atoi(text); err != nil || q.Limit < 1 || q.Limit > 1000 {
			return q, fmt.Errorf("limit %q is not a number from 1 to 1000", text)
		}
	}
	if text := values.Get("after"); text != "" {
		if q.After, err = strconv.ParseUint(text, 10, 64); err != nil {
			return q, fmt.Errorf(`after %q is not the "next" of the page before`, text)
		}
	}
	return q, nil
}

func joined[T ~string](names []T) string {
	texts := make([]string, len(names))
	for i, name := range names {
		texts[i] = string(name)
	}
	return strings.Join(texts, ", ")
}

// writtenExchange is how a frame is written: a text as it was, anything else in base64.
type writtenExchange struct {
	At        time.Time `json:"at"`
	Socket    int       `json:"socket"`
	Direction string    `json:"direction"`
	Event     string    `json:"event"`
	Size      int       `json:"size"` // bytes of the whole
	// Cut says that only its beginning was kept.
	Cut    bool   `json:"cut,omitempty"`
	Text   string `json:"text,omitempty"`
	Base64 []byte `json:"base64,omitempty"`
}

func (s *Server) getTranscript(w http.ResponseWriter, r *http.Request) {
	frames, whole, err := s.RunTranscript(r.PathValue("id"))
	if err != nil {
		refuseRun(w, err)
		return
	}
	written := make([]writtenExchange, len(frames))
	for i, f := range frames {
		written[i] = writtenExchange{At: f.At, Socket: f.Socket, Direction: f.Direction.String(), Event: f.Event, Size: f.Size, Cut: f.Size > len(f.Data)}
		if f.Binary {
			written[i].Base64 = f.Data
		} else {
			written[i].Text = string(f.Data)
		}
	}
	writeJSON(w, http.StatusOK, struct {
		Run string `json:"run"`
		// Whole is false when frames of the run may be forgotten.
		Whole  bool              `json:"whole"`
		Frames []writtenExchange `json:"frames"`
	}{r.PathValue("id"), whole, written})
}

const (
	// maxFollowers is how many may follow the changes at a time.
	maxFollowers = 100
	// followTimeout is how long a client may take no bytes before it is dropped; it can resume by the id of the last
	// change that it saw.
	followTimeout = 10 * time.Second
	// followPulse is how often a client is written to when nothing happens, so that one that has gone is noticed.
	followPulse = 15 * time.Second
)

// getEvents writes the changes from now on, or those behind the one that the client saw last, until the client goes or the
// server is closed. Nothing is kept for a client: it reads what all read, at its own pace.
func (s *Server) getEvents(w http.ResponseWriter, r *http.Request) {
	n := s.service.LastChange()
	another := false
	if text := lastSeen(r); text != "" {
		number, of, _ := strings.Cut(text, "-")
		seen, err := strconv.ParseUint(number, 10, 64)
		if err != nil {
			writeJSON(w, http.StatusBadRequest, errorBody(fmt.Sprintf("after %q is not the id of an event", text)))
			return
		}
		if another = seen > n || of != "" && of != s.epoch; !another { // else it is of a server that was here before
			n = seen
		}
	}
	if s.followers.Add(1) > maxFollowers {
		s.followers.Add(-1)
		writeJSON(w, http.StatusServiceUnavailable, errorBody(fmt.Sprintf("%d clients follow the events already", maxFollowers)))
		return
	}
	defer s.followers.Add(-1)
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Cache-Control", "no-store")
	f := follower{w: w, out: http.NewResponseController(w), epoch: s.epoch, run: r.URL.Query().Get("run")}
	if another && !f.write("event: missed\ndata: {\"changes\":null}\n\n") {
		return
	}
	f.follow(r.Context(), s.service, n)
}

func lastSeen(r *http.Request) string {
	if id := r.Header.Get("Last-Event-ID"); id != "" {
		return id
	}
	return r.URL.Query().Get("after")
}

// follower is a client that follows the changes.
type follower struct {
	w   http.ResponseWriter
	out *http.ResponseController

	epoch string // the server's, a part of each id
	run   string // the only run that it wants to hear of; empty for all
}

func (f *follower) follow(ctx context.Context, service *lightning.Service, n uint64) {
	pulse := time.NewTicker(followPulse)
	defer pulse.Stop()
	if !f.write(": these are the changes from here on\nretry: 1000\n\n") {
		return
	}
	for {
		changes, more := service.ChangesAfter(n)
		for _, c := range changes {
			if c.N > n+1 && !f.write(fmt.Sprintf("event: missed\ndata: {\"changes\":%d}\n\n", c.N-n-1)) {
				return
			}
			n = c.N
			if f.run != "" && f.run != c.About() {
				continue
			}
			if kind, data := described(c); !f.write(fmt.Sprintf("id: %d-%s\nevent: %s\ndata: %s\n\n", n, f.epoch, kind, data)) {
				return
			}
		}
		if len(changes) > 0 {
			continue
		}
		select {
		case <-more:
		case <-pulse.C:
			if !f.write(": nothing new\n\n") {
				return
			}
		case <-ctx.Done():
			return
		case <-service.Done():
			return
		}
	}
}

// described returns what a change is called, and its data: one line of JSON.
func described(c Change) (kind string, data []byte) {
	var v any
	switch {
	case c.Run != nil:
		kind, v = "run", c.Run
	case c.Event != nil:
		kind, v = "event", c.Event
	case c.Fault != nil:
		kind, v = "fault", c.Fault
	default:
		kind, v = "worker", map[string]string{"worker": c.Worker}
	}
	data, _ = json.Marshal(v) // none has anything that does not encode
	return kind, data
}

// write reports whether the client took it.
func (f *follower) write(text string) bool {
	_ = f.out.SetWriteDeadline(time.Now().Add(followTimeout)) // a recorder in a test has none
	_, err := f.w.Write([]byte(text))
	if err == nil {
		err = f.out.Flush()
	}
	return err == nil
}
