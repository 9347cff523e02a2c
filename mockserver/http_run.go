package mockserver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver/lightning"
)

// postRun queues the plan in the body, and waits for its end if it is to.
func (s *Server) postRun(w http.ResponseWriter, r *http.Request) {
	body, ok := readJSON(w, r)
	if !ok {
		return
	}
	query := r.URL.Query()
	for name := range query {
		if !slices.Contains(runParameters, name) {
			writeJSON(w, http.StatusBadRequest, errorBody(fmt.Sprintf("there is no parameter %q; there are %s", name, strings.Join(runParameters, ", "))))
			return
		}
	}
	run, err := ReadRun(body)
	if err == nil {
		if query.Has("queue") {
			run.Queue = query.Get("queue")
		}
		if query.Has("priority") {
			run.Priority, err = ParsePriority(query.Get("priority"))
		}
	}
	if err != nil {
		refuseRun(w, err)
		return
	}
	if query.Has("wait") {
		s.postAndWait(w, r, run)
		return
	}
	id, err := s.Enqueue(run)
	if err != nil {
		refuseRun(w, err)
		return
	}
	if query.Has("wakeup") {
		s.Wake()
	}
	writeJSON(w, http.StatusCreated, struct {
		ID       string   `json:"id"`
		Warnings []string `json:"warnings,omitempty"`
	}{id, s.Doubts(run)})
}

// runParameters are what may stand in the query of POST /run: a slip would be
// another queue, or no answer, without a word.
var runParameters = []string{"queue", "priority", "wakeup", "wait"}

// dispatchTimeout is how long ?wait waits if it does not say.
const dispatchTimeout = 40 * time.Second

// postAndWait queues a run and answers with its result.
func (s *Server) postAndWait(w http.ResponseWriter, r *http.Request, run Run) {
	patience := dispatchTimeout
	if given := r.URL.Query().Get("wait"); given != "" {
		seconds, err := strconv.ParseFloat(given, 64)
		if err != nil || !(seconds > 0 && seconds <= maxDispatch.Seconds()) {
			writeJSON(w, http.StatusUnprocessableEntity, fieldError("wait", "must be a number of seconds, at most an hour"))
			return
		}
		patience = time.Duration(seconds * float64(time.Second))
	}
	ctx, cancel := context.WithTimeout(r.Context(), patience)
	defer cancel()
	result, err := s.Dispatch(ctx, run)
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		writeJSON(w, http.StatusGatewayTimeout, struct {
			Error    string   `json:"error"`
			ID       string   `json:"id"`
			Warnings []string `json:"warnings,omitempty"`
		}{fmt.Sprintf("run %q has not ended within %v; it stays, see GET /run/{id}", result.ID, patience), result.ID, s.Doubts(run)})
	case err != nil:
		refuseRun(w, err)
	default:
		writeJSON(w, http.StatusOK, struct {
			Result

			Warnings []string `json:"warnings,omitempty"`
		}{result, s.Doubts(run)})
	}
}

const maxDispatch = time.Hour

// refuseRun answers with what stood in the way of a run, or of what was asked of it.
func refuseRun(w http.ResponseWriter, err error) {
	var invalid *InvalidError
	var full *FullError
	switch {
	case errors.As(err, &invalid):
		writeJSON(w, http.StatusUnprocessableEntity, fieldError(invalid.Field, invalid.Reason))
	case errors.As(err, new(*ConflictError)):
		writeJSON(w, http.StatusConflict, fieldError("id", "has already been taken"))
	case errors.As(err, &full):
		w.Header().Set("Retry-After", "1")
		writeJSON(w, http.StatusTooManyRequests, errorBody(full.Error()))
	case errors.Is(err, ErrUnknownRun):
		writeJSON(w, http.StatusNotFound, errorBody(err.Error()))
	case errors.As(err, new(*StateError)):
		writeJSON(w, http.StatusConflict, errorBody(err.Error()))
	case errors.As(err, new(*NotAgreedError)), errors.Is(err, ErrNotification):
		writeJSON(w, http.StatusUnprocessableEntity, errorBody(err.Error()))
	case errors.Is(err, ErrClosed):
		writeJSON(w, http.StatusServiceUnavailable, errorBody(err.Error()))
	default:
		writeJSON(w, http.StatusInternalServerError, errorBody(err.Error()))
	}
}

func (s *Server) getRun(w http.ResponseWriter, r *http.Request) {
	record, ok := s.Inspect(r.PathValue("id"))
	if !ok {
		writeJSON(w, http.StatusNotFound, errorBody(fmt.Sprintf("no run %q: it was never posted, or it ended and is forgotten", r.PathValue("id"))))
		return
	}
	writeJSON(w, http.StatusOK, record)
}

// ReadRun reads the body of POST /run: it takes from a plan what is not the worker's. What is wrong with the plan
// itself is left to Enqueue. The error is an [*InvalidError].
func ReadRun(body json.RawMessage) (Run, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return Run{}, &InvalidError{Field: "plan", Reason: "must be a JSON object"}
	}
	run := Run{Plan: body, Dataclip: fields["dataclip"]}
	if raw, ok := fields["key"]; ok && json.Unmarshal(raw, &run.Key) != nil {
		return Run{}, &InvalidError{Field: "key", Reason: "must be a string"}
	}
	if raw, ok := fields["queue"]; ok && json.Unmarshal(raw, &run.Queue) != nil {
		return Run{}, &InvalidError{Field: "queue", Reason: "must be a string"}
	}
	if raw, ok := fields["priority"]; ok {
		var name string
		_ = json.Unmarshal(raw, &name) // then there is no such priority
		var err error
		if run.Priority, err = ParsePriority(cmp.Or(name, "none")); err != nil {
			return Run{}, err
		}
	}
	if raw, ok := fields["credentials"]; ok {
		if json.Unmarshal(raw, &run.Credentials) != nil {
			return Run{}, &InvalidError{Field: "credentials", Reason: "must be an object of bodies by id"}
		}
	}
	own := len(fields)
	delete(fields, "dataclip")
	delete(fields, "credentials")
	delete(fields, "key")
	delete(fields, "priority")
	if len(fields) == own {
		return run, nil // as it was posted, byte for byte
	}
	var err error
	run.Plan, err = json.Marshal(fields)
	return run, err
}

// ParsePriority reads a priority's name, or its number in Lightning's table; nothing is normal. The error is an [*InvalidError].
func ParsePriority(s string) (Priority, error) {
	switch s {
	case "", "normal", "1":
		return Normal, nil
	case "immediate", "0":
		return Immediate, nil
	}
	return Normal, &InvalidError{Field: "priority", Reason: "must be immediate (or 0) or normal (or 1)"}
}

// postCancel cancels a run: 200 if that ended it, 202 if its worker was told, or
// will be.
func (s *Server) postCancel(w http.ResponseWriter, r *http.Request) {
	var asked struct {
		Message string `json:"message"`
	}
	if r.ContentLength != 0 {
		body, ok := readJSON(w, r)
		if !ok {
			return
		}
		if json.Unmarshal(body, &asked) != nil {
			writeJSON(w, http.StatusUnprocessableEntity, fieldError("message", "must be a string"))
			return
		}
	}
	id := r.PathValue("id")
	if err := s.Cancel(id, asked.Message); err != nil {
		refuseRun(w, err)
		return
	}
	status, state := http.StatusAccepted, lightning.Cancelled // forgotten already
	if record, ok := s.Inspect(id); ok {
		state = record.State
	}
	if state.Final() {
		status = http.StatusOK
	}
	writeJSON(w, status, map[string]string{"id": id, "state": string(state)})
}

func (s *Server) postNotify(w http.ResponseWriter, r *http.Request) {
	body, ok := readJSON(w, r)
	if !ok {
		return
	}
	if err := s.Notify(r.PathValue("id"), body); err != nil {
		refuseRun(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]string{"id": r.PathValue("id")})
}

// postAgain queues a copy of a run, with its own input or the one in the body.
func (s *Server) postAgain(w http.ResponseWriter, r *http.Request) {
	run, err := s.Copy(r.PathValue("id"))
	if err != nil {
		refuseRun(w, err)
		return
	}
	if r.ContentLength != 0 {
		body, ok := readJSON(w, r)
		if !ok {
			return
		}
		run.Dataclip = body
	}
	id, err := s.Enqueue(run)
	if err != nil {
		refuseRun(w, err)
		return
	}
	writeJSON(w, http.StatusCreated, map[string]string{"id": id})
}

func (s *Server) postDrain(w http.ResponseWriter, r *http.Request) {
	writeJSON(w, http.StatusOK, map[string]int{"workers": s.drain(r.URL.Query().Get("worker"))})
}

// postWorker does something to the worker of the path.
func (s *Server) postWorker(do func(id string) bool) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		id := r.PathValue("id")
		switch {
		case s.extended == nil:
			writeJSON(w, http.StatusUnprocessableEntity, errorBody("a Lightning cannot do that: start the server with --mode extended"))
		case !do(id):
			writeJSON(w, http.StatusNotFound, errorBody(fmt.Sprintf("no worker %q: GET /workers has those that there are", id)))
		default:
			writeJSON(w, http.StatusOK, map[string]string{"id": id})
		}
	}
}

func (s *Server) getWorkers(w http.ResponseWriter, _ *http.Request) {
	workers := s.Workers()
	if workers == nil {
		workers = []WorkerRecord{}
	}
	writeJSON(w, http.StatusOK, map[string][]WorkerRecord{"workers": workers})
}
