package page

import (
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/phxworker/phxworker/mockserver/fault"
)

// preset is a fault as docs/mockserver.md has it.
type preset struct{ Want, Rule string }

var presets = []preset{
	{"the connection lost after a step's end was applied", `{"event":"step:complete","action":"drop","when":"after"}`},
	{"a close with a code", `{"event":"run:start","action":"close","code":1011}`},
	{"the server restarted, back after 10 s", `{"event":"now","action":"restart","delay":"10s"}`},
	{"a topic crashed", `{"event":"step:start","action":"crash","when":"before"}`},
	{"an event that is lost", `{"event":"run:log","action":"withhold","when":"before"}`},
	{"a late reply", `{"event":"run:start","action":"delay","delay":"5s"}`},
	{"a full database: every claim takes 15 s", `{"event":"claim","action":"delay","delay":"15s","count":-1}`},
	{"a reply twice", `{"event":"claim","action":"double"}`},
	{"a refusal", `{"event":"run:complete","action":"refuse","response":{"state":["is invalid"]}}`},
	{"a join refused", `{"event":"join","topic":"run:*","action":"refuse","response":{"reason":"not_found"}}`},
	{"a join that crashes", `{"event":"join","topic":"worker:queue","action":"crash"}`},
	{"no answer to heartbeats any more", `{"event":"heartbeat","action":"withhold","count":-1}`},
	{"an upgrade refused", `{"event":"connect","action":"refuse","code":503}`},
	{"a run token that expires at the next join", `{"event":"join","topic":"run:*","action":"expire"}`},
	{"a frame limit", `{"over":1000000,"action":"drop","count":-1}`},
	{"a server that stops reading for a while", `{"event":"run:log","action":"stall","delay":"30s"}`},
}

// faultsView is what goes wrong, and what did.
type faultsView struct {
	Seed    uint64
	Rules   []shownRule
	Strikes []fault.Strike
	Struck  int // how many are remembered
	Presets []preset
	Events  []string
	Actions []fault.Action
	Asked   map[string]string // what was written into the form
	// Problems are what is wrong with it, by field.
	Problems map[string]string
}

type shownRule struct {
	fault.Status

	Text string
	Used bool // it strikes no more
}

// maxShown is how many strikes are shown.
const maxShown = 100

func (p *page) getFaults(w http.ResponseWriter, r *http.Request) {
	asked := make(map[string]string)
	for _, name := range fields {
		asked[name] = r.FormValue(name)
	}
	p.showFaults(w, http.StatusOK, faultsView{Asked: asked})
}

func (p *page) showFaults(w http.ResponseWriter, status int, view faultsView) {
	view.Seed, view.Presets, view.Actions, view.Events = p.server.FaultSeed(), presets, fault.Actions(), fault.Events()
	for _, rule := range p.server.FaultRules() {
		text, _ := json.Marshal(rule.Rule) // it was read from such a text
		view.Rules = append(view.Rules, shownRule{Status: rule, Text: string(text), Used: rule.Event == fault.Now || rule.Struck == rule.Count})
	}
	strikes := p.server.Faults()
	view.Struck = len(strikes)
	slices.Reverse(strikes)
	view.Strikes = strikes[:min(len(strikes), maxShown)]
	p.show(w, status, "faults", frame{Title: "Faults", Here: "/page/faults", Follow: "/events", View: view})
}

// fields are those of the form. A preset comes whole, as rule.
var fields = []string{"event", "action", "when", "run", "worker", "skip", "count", "probability", "delay", "code", "response"}

func (p *page) postFaults(w http.ResponseWriter, r *http.Request) {
	view := faultsView{Asked: make(map[string]string)}
	text := []byte(r.FormValue("rule"))
	if len(text) == 0 {
		for _, name := range fields {
			view.Asked[name] = strings.TrimSpace(r.FormValue(name))
		}
		text = asRule(view.Asked)
	}
	rule, err := fault.Parse(text)
	if err == nil {
		_, err = p.server.AddFault(rule)
	}
	if invalid, ok := errors.AsType[*fault.InvalidError](err); ok {
		view.Problems = map[string]string{invalid.Field: invalid.Reason}
		p.showFaults(w, http.StatusUnprocessableEntity, view)
		return
	}
	see(w, "/page/faults", nil)
}

// asRule makes a rule of the form. What is no number where one belongs stays a text, which is refused by its name.
func asRule(asked map[string]string) []byte {
	rule := make(map[string]any)
	for name, value := range asked {
		if value == "" {
			continue
		}
		rule[name] = value
		switch name {
		case "skip", "count", "code", "probability":
			if _, err := strconv.ParseFloat(value, 64); err == nil {
				rule[name] = json.Number(value)
			}
		case "response":
			if json.Valid([]byte(value)) {
				rule[name] = json.RawMessage(value)
			}
		}
	}
	text, err := json.Marshal(rule)
	if err != nil { // a number that JSON writes otherwise, such as 0x10
		return []byte(`{}`)
	}
	return text
}

func (p *page) postRemove(w http.ResponseWriter, r *http.Request) {
	if id, err := strconv.Atoi(r.FormValue("rule")); err == nil {
		p.server.RemoveFault(id) // one that is gone already is what was asked for
	} else if r.FormValue("rule") == "all" {
		p.server.ClearFaults()
	}
	see(w, "/page/faults", nil)
}
