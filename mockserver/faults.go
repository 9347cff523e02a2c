package mockserver

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// faults is where the rules meet the sockets and the runs.
type faults struct {
	set     *fault.Set
	service *lightning.Service
}

var _ phoenix.Faults = (*faults)(nil)

// Strike implements [phoenix.Faults].
func (f *faults) Strike(m fault.Message) *fault.Rule {
	rule, strike := f.set.Ask(&m)
	if rule == nil {
		return nil
	}
	f.service.Struck(strike)
	if rule.Action == fault.Expire {
		f.service.ExpireToken(strike.Run)
		return nil // the message goes its way
	}
	return rule
}

// AddFault adds a rule behind those there are, and returns its number. One for
// the event [fault.Now] strikes before AddFault returns. The error is a
// [*fault.InvalidError].
func (s *Server) AddFault(r fault.Rule) (id int, err error) {
	r, strike, err := s.faults.set.Add(r)
	if err != nil || r.Event != fault.Now {
		return r.ID, err
	}
	s.service.Struck(strike)
	switch r.Action {
	case fault.Drop:
		s.endpoint.Kick(r.Worker, fault.Abnormal)
	case fault.Close:
		s.endpoint.Kick(r.Worker, r.Code)
	case fault.Stall:
		s.endpoint.Stall(r.Worker, r.Delay)
	case fault.Restart:
		s.endpoint.Restart(r.Code, r.Delay)
	case fault.Expire:
		s.service.ExpireToken(r.Run)
	default: // the others need a message
	}
	return r.ID, nil
}

// RemoveFault takes out a rule and reports whether it was there.
func (s *Server) RemoveFault(id int) bool { return s.faults.set.Remove(id) }

// ClearFaults takes out all rules and returns how many there were. What they have
// done stays on record; replies they delayed come when they are due.
func (s *Server) ClearFaults() int { return s.faults.set.Clear() }

// FaultRules returns the rules and how often each struck.
func (s *Server) FaultRules() []fault.Status { return s.faults.set.Rules() }

// Faults returns what struck, oldest first: the last 10,000 of all times. What
// struck a run is in its [RunRecord] as well.
func (s *Server) Faults() []fault.Strike { return s.faults.set.Strikes() }

// FaultSeed returns the seed; see [Config].FaultSeed.
func (s *Server) FaultSeed() uint64 { return s.faults.set.Seed() }

// Kick closes every connection with the code, or without a close frame if it is
// 1006. Like Restart, it goes on record as a fault.
func (s *Server) Kick(code int) error {
	r := fault.Rule{Event: fault.Now, Action: fault.Close, Code: code}
	if code == fault.Abnormal {
		r.Action, r.Code = fault.Drop, 0
	}
	_, err := s.AddFault(r)
	return err
}

// Restart ends every connection with the code, as Kick does, and hangs up on
// every new one for as long as down. The queue and the HTTP interface stay.
func (s *Server) Restart(code int, down time.Duration) error {
	_, err := s.AddFault(fault.Rule{Event: fault.Now, Action: fault.Restart, Code: code, Delay: down})
	return err
}

// ExpireToken makes a run's token expire now, for the joins to come.
func (s *Server) ExpireToken(run string) error {
	_, err := s.AddFault(fault.Rule{Event: fault.Now, Action: fault.Expire, Run: run})
	return err
}

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
