package page

import (
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/phxworker/phxworker/mockserver"
)

// queueView is the form by which a run is queued.
type queueView struct {
	Examples []string
	Example  string // the one that was picked
	About    string // what it shows
	Plan     string
	Input    string
	Queue    string
	Priority string
	// Problems are what is wrong, by field of the form.
	Problems map[string]string
	Doubts   []string // what in the plan can hardly mean what it says
	Waiting  int      // runs
	Workers  int
}

func (p *page) getQueue(w http.ResponseWriter, r *http.Request) {
	view := queueView{Example: r.FormValue("example"), Plan: starter}
	if view.Example != "" {
		if !slices.Contains(p.exampleNames(), view.Example) {
			p.problem(w, http.StatusNotFound, "There is no such example.")
			return
		}
		text, err := fs.ReadFile(p.examples, view.Example+".json")
		if err != nil {
			p.problem(w, http.StatusInternalServerError, "The example cannot be read: "+err.Error()+".")
			return
		}
		var told struct{ About, Queue string }
		_ = json.Unmarshal(text, &told) // it is for people
		view.Plan, view.About, view.Queue = string(text), told.About, told.Queue
	}
	p.showQueue(w, http.StatusOK, view)
}

// starter is a plan to begin with.
const starter = `{
  "jobs": [
    {
      "id": "greet",
      "name": "Say hello",
      "adaptor": "@openfn/language-common@latest",
      "body": "fn(state => ({ ...state, data: { greeting: 'hello' } }))"
    }
  ]
}`

func (p *page) exampleNames() (names []string) {
	if p.examples == nil {
		return nil
	}
	files, _ := fs.Glob(p.examples, "*.json") // the pattern is a good one
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file, ".json"))
	}
	return names
}

func (p *page) showQueue(w http.ResponseWriter, status int, view queueView) {
	view.Examples, view.Workers = p.exampleNames(), p.server.Stats().Workers
	p.show(w, status, "queue", frame{Title: "Queue a run", Here: "/page/queue", View: view})
}

// postQueue queues what is in the form. A plan that can hardly mean what it says is queued when that was shown and the
// form is sent again.
func (p *page) postQueue(w http.ResponseWriter, r *http.Request) {
	view := queueView{
		Example: r.FormValue("example"), Plan: r.FormValue("plan"), Input: strings.TrimSpace(r.FormValue("input")),
		Queue: strings.TrimSpace(r.FormValue("queue")), Priority: r.FormValue("priority"), Problems: make(map[string]string),
	}
	run := view.run()
	if len(view.Problems) == 0 && r.FormValue("doubted") != view.Plan {
		view.Doubts = p.server.Doubts(run)
	}
	if len(view.Problems)+len(view.Doubts) > 0 {
		p.showQueue(w, http.StatusUnprocessableEntity, view)
		return
	}
	id, err := p.server.Enqueue(run)
	if err != nil {
		field := "plan"
		if invalid, ok := errors.AsType[*mockserver.InvalidError](err); ok {
			view.Problems[field] = strings.TrimPrefix(invalid.Field+" "+invalid.Reason, "plan ")
		} else {
			view.Problems[field] = err.Error()
		}
		p.showQueue(w, http.StatusUnprocessableEntity, view)
		return
	}
	p.server.Wake()
	see(w, "/page/run", url.Values{"id": {id}})
}

// run reads the form, and notes what is wrong with it.
func (v *queueView) run() mockserver.Run {
	if problem := syntax([]byte(v.Plan)); problem != "" {
		v.Problems["plan"] = problem
		return mockserver.Run{}
	}
	run, err := mockserver.ReadRun(json.RawMessage(strings.TrimSpace(v.Plan)))
	if invalid, ok := errors.AsType[*mockserver.InvalidError](err); ok {
		v.Problems["plan"] = strings.TrimPrefix(invalid.Field+" "+invalid.Reason, "plan ")
	}
	if v.Queue != "" {
		run.Queue = v.Queue
	}
	if run.Priority, err = mockserver.ParsePriority(v.Priority); err != nil {
		v.Problems["priority"] = "must be normal or immediate"
	}
	if v.Input != "" {
		if problem := syntax([]byte(v.Input)); problem != "" {
			v.Problems["input"] = problem
		}
		run.Dataclip = json.RawMessage(v.Input)
	}
	return run
}
