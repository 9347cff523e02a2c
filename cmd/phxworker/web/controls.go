package web

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// failure is the answer to a control that could not be done.
type failure struct {
	Error string `json:"error"`
}

func writeError(w http.ResponseWriter, status int, reason string) {
	writeJSON(w, status, failure{reason})
}

// writeFailure answers with what the worker said.
func writeFailure(w http.ResponseWriter, err error) {
	switch {
	case errors.Is(err, phxworker.ErrNotRunning), errors.Is(err, errUnanswered):
		writeError(w, http.StatusServiceUnavailable, err.Error())
	case errors.Is(err, phxworker.ErrDraining), errors.Is(err, phxworker.ErrUnable), errors.Is(err, phxworker.ErrReporting), errors.Is(err, runner.ErrNoNotices):
		writeError(w, http.StatusConflict, err.Error())
	case errors.Is(err, phxworker.ErrNoRun), errors.As(err, new(*phxworker.GroupError)):
		writeError(w, http.StatusNotFound, err.Error())
	default:
		writeError(w, http.StatusBadRequest, err.Error())
	}
}

func (s *Server) pause(w http.ResponseWriter, r *http.Request) { s.eachGroup(w, r, s.worker.Pause) }

func (s *Server) resume(w http.ResponseWriter, r *http.Request) { s.eachGroup(w, r, s.worker.Resume) }

// eachGroup does something to the group of the query, to all without one, and
// answers with the groups as they are then.
func (s *Server) eachGroup(w http.ResponseWriter, r *http.Request, do func(group string) error) {
	query := r.URL.Query()
	name := query.Get("group")
	// A slip of the pen must not pause every group.
	if given, ok := query["group"]; len(query) > 1 || len(query) == 1 && (!ok || len(given) != 1 || name == "") {
		writeError(w, http.StatusBadRequest, "write ?group=NAME for one group, or nothing for all")
		return
	}
	if err := do(name); err != nil {
		writeFailure(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string][]phxworker.GroupStats{"groups": s.groups(name)})
}

// groups returns the groups of that name, all if it is empty.
func (s *Server) groups(name string) (groups []phxworker.GroupStats) {
	for _, g := range s.worker.Stats().Groups {
		if name == "" || name == g.Name {
			groups = append(groups, g)
		}
	}
	return groups
}

func (s *Server) resize(w http.ResponseWriter, r *http.Request) {
	var body struct {
		Slots *int `json:"slots"`
	}
	decoder := json.NewDecoder(r.Body)
	decoder.DisallowUnknownFields()
	err := decoder.Decode(&body)
	if err == nil && decoder.Decode(new(json.RawMessage)) != io.EOF {
		err = errors.New("there is something behind the object")
	}
	misread, _ := errors.AsType[*json.UnmarshalTypeError](err)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		writeError(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is over %d bytes", maxBody))
		return
	case misread != nil && misread.Field == "slots":
		writeError(w, http.StatusBadRequest, "slots must be a whole number from 1 up")
		return
	case errors.Is(err, io.EOF), misread != nil:
		writeError(w, http.StatusBadRequest, `the body is not like {"slots":6}`)
		return
	case err != nil:
		writeError(w, http.StatusBadRequest, fmt.Sprintf(`the body is not like {"slots":6}: %v`, err))
		return
	case body.Slots == nil:
		writeError(w, http.StatusBadRequest, `no "slots": send a body like {"slots":6}`)
		return
	case *body.Slots > slots.MaxGroupSlots:
		writeError(w, http.StatusBadRequest, fmt.Sprintf("%d slots are more than a group can have: give %d at most", *body.Slots, slots.MaxGroupSlots))
		return
	}
	if err := s.unable(); err != nil {
		writeFailure(w, err)
		return
	}
	name := r.PathValue("name")
	if err := s.worker.Resize(name, *body.Slots); err != nil {
		writeFailure(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string][]phxworker.GroupStats{"groups": s.groups(name)})
}

func (s *Server) drain(w http.ResponseWriter, _ *http.Request) {
	if err := s.unable(); errors.Is(err, phxworker.ErrNotRunning) {
		writeFailure(w, err)
		return
	}
	s.worker.Drain()
	writeJSON(w, http.StatusAccepted, map[string]any{"draining": true, "running": len(s.worker.Stats().Runs)})
}

// unable returns why a control would have no effect, of those that a worker takes
// at any time; nil if it has one.
func (s *Server) unable() error {
	switch s.worker.Stats().Phase {
	case phxworker.PhaseRunning:
		return nil
	case phxworker.PhaseDraining, phxworker.PhaseStopping:
		return phxworker.ErrDraining
	default:
		return phxworker.ErrNotRunning
	}
}

func (s *Server) cancel(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if err := s.worker.Cancel(id); err != nil {
		writeFailure(w, err)
		return
	}
	writeJSON(w, http.StatusAccepted, map[string]any{"id": id, "cancelling": true})
}

// notify hands the body to a run, as if the server had pushed it.
func (s *Server) notify(w http.ResponseWriter, r *http.Request) {
	var notice map[string]json.RawMessage
	body, err := io.ReadAll(r.Body)
	switch {
	case errors.As(err, new(*http.MaxBytesError)):
		writeError(w, http.StatusRequestEntityTooLarge, fmt.Sprintf("the body is over %d bytes", maxBody))
		return
	case err != nil, json.Unmarshal(body, &notice) != nil, notice == nil:
		writeError(w, http.StatusBadRequest, "the body is no JSON object: send what the run is to be told")
		return
	}
	ctx, cancel := context.WithTimeoutCause(r.Context(), claimPatience, errUnanswered)
	defer cancel()
	id := r.PathValue("id")
	if err := s.worker.Notify(ctx, id, body); err != nil {
		writeFailure(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"id": id, "notified": true})
}

// claim answers as OpenFn's worker does.
func (s *Server) claim(w http.ResponseWriter, r *http.Request) {
	_, _ = io.Copy(io.Discard, r.Body) // so that the end of the connection is noticed
	ctx, cancel := context.WithTimeoutCause(r.Context(), claimPatience, errUnanswered)
	defer cancel()
	brought, err := s.worker.Claim(ctx)
	switch {
	case err != nil:
		writeFailure(w, err)
	case !brought:
		w.WriteHeader(http.StatusNoContent)
	default:
		w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		_, _ = io.WriteString(w, "complete") // else the client has gone
	}
}

// errUnanswered is the cause of the end of a wait, not of the claim.
var errUnanswered = fmt.Errorf("no claim was answered within %s; if one that was sent brings a run yet, that is executed", claimPatience)
