package mockserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"

	"github.com/phxworker/phxworker/mockserver/fault"
)

// postFaults adds the rule in the body, or the rules of a list: all or, if one is
// bad, none.
func (s *Server) postFaults(w http.ResponseWriter, r *http.Request) {
	body, ok := readJSON(w, r)
	if !ok {
		return
	}
	rules, err := readRules(body)
	if invalid, ok := errors.AsType[*fault.InvalidError](err); ok {
		writeJSON(w, http.StatusUnprocessableEntity, fieldError(invalid.Field, invalid.Reason))
		return
	}
	ids := make([]int, len(rules))
	for i, rule := range rules {
		ids[i], _ = s.AddFault(rule) // it was checked when it was read
	}
	writeJSON(w, http.StatusCreated, map[string][]int{"ids": ids})
}

func readRules(body json.RawMessage) ([]fault.Rule, error) {
	if body[0] != '[' {
		rule, err := fault.Parse(body)
		return []fault.Rule{rule}, err
	}
	var list []json.RawMessage
	if err := json.Unmarshal(body, &list); err != nil {
		return nil, &fault.InvalidError{Field: "fault", Reason: err.Error()}
	}
	rules := make([]fault.Rule, len(list))
	for i, raw := range list {
		rule, err := fault.Parse(raw)
		if invalid, ok := errors.AsType[*fault.InvalidError](err); ok {
			return nil, &fault.InvalidError{Field: fmt.Sprintf("[%d].%s", i, invalid.Field), Reason: invalid.Reason}
		}
		rules[i] = rule
	}
	return rules, nil
}

func (s *Server) getFaults(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, struct {
		Seed    uint64         `json:"seed"`
		Rules   []fault.Status `json:"rules"`
		Strikes []fault.Strike `json:"strikes"`
	}{s.FaultSeed(), s.FaultRules(), s.Faults()})
}

func (s *Server) deleteFaults(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, map[string]int{"removed": s.ClearFaults()})
}

func (s *Server) deleteFault(w http.ResponseWriter, r *http.Request) {
	id, err := strconv.Atoi(r.PathValue("id"))
	if err != nil || !s.RemoveFault(id) {
		writeJSON(w, http.StatusNotFound, errorBody(fmt.Sprintf("no fault %q", r.PathValue("id"))))
		return
	}
	writeJSON(w, http.StatusOK, map[string]int{"removed": 1})
}
