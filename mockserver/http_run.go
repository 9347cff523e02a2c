package mockserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"

	"github.com/google/uuid"
)

// postRun queues the plan in the body.
func (s *Server) postRun(w http.ResponseWriter, r *http.Request) {
	body, ok := readJSON(w, r)
	if !ok {
		return
	}
	run, id, err := readRun(body)
	if err == nil {
		run.Queue = r.URL.Query().Get("queue")
		run.Priority, err = parsePriority(r.URL.Query().Get("priority"))
	}
	if err == nil {
		err = s.Enqueue(run)
	}
	var invalid *InvalidError
	var conflict *ConflictError
	switch {
	case errors.As(err, &invalid):
		writeJSON(w, http.StatusUnprocessableEntity, fieldError(invalid.Field, invalid.Reason))
	case errors.As(err, &conflict):
		writeJSON(w, http.StatusConflict, fieldError("id", "has already been taken"))
	case err != nil:
		writeJSON(w, http.StatusInternalServerError, errorBody(err.Error()))
	default:
		if r.URL.Query().Has("wakeup") {
			s.Wake()
		}
		writeJSON(w, http.StatusCreated, map[string]string{"id": id})
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

// readRun takes from a posted plan what is not the worker's, and gives it an id
// if it has none. What is wrong with the plan itself is left to Enqueue.
func readRun(body json.RawMessage) (Run, string, error) {
	var fields map[string]json.RawMessage
	if json.Unmarshal(body, &fields) != nil || fields == nil {
		return Run{}, "", &InvalidError{Field: "plan", Reason: "must be a JSON object"}
	}
	run := Run{Plan: body, Dataclip: fields["dataclip"]}
	if raw, ok := fields["credentials"]; ok {
		if json.Unmarshal(raw, &run.Credentials) != nil {
			return Run{}, "", &InvalidError{Field: "credentials", Reason: "must be an object of bodies by id"}
		}
	}
	_, named := fields["id"]
	if named && run.Dataclip == nil && run.Credentials == nil {
		return run, planID(fields), nil // as it was posted, byte for byte
	}
	delete(fields, "dataclip")
	delete(fields, "credentials")
	if !named {
		fields["id"], _ = json.Marshal(uuid.NewString()) // a string always encodes
	}
	var err error
	run.Plan, err = json.Marshal(fields)
	return run, planID(fields), err
}

// planID returns the plan's id if it is a string; Enqueue refuses any other.
func planID(fields map[string]json.RawMessage) (id string) {
	_ = json.Unmarshal(fields["id"], &id)
	return id
}

// parsePriority reads a priority's name, or its number in Lightning's table.
func parsePriority(s string) (Priority, error) {
	switch s {
	case "", "normal", "1":
		return Normal, nil
	case "immediate", "0":
		return Immediate, nil
	}
	return Normal, &InvalidError{Field: "priority", Reason: "must be immediate (or 0) or normal (or 1)"}
}
