package page

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/lightning"
)

// runView is one run.
type runView struct {
	mockserver.RunRecord
	*story

	Name       string // of the workflow
	Versions   string
	Waited     string
	Took       string
	Failure    string // what went wrong, if anything did
	Final      string
	Input      string
	Credential bool // a job names one
	Frames     []shownFrame
	Whole      bool   // the transcript has all of them
	Kept       int    // how many frames there are
	Search     string // what was looked for in them
	Cancelable bool
	Fixture    bool // it can be downloaded as one
	// Problems are what is wrong with a form, by its fields.
	Problems map[string]string
	Again    string // what was written into the form for the input
}

// shownFrame is a frame of the transcript.
type shownFrame struct {
	mockserver.Exchange

	After time.Duration // since the run was queued
	In    bool          // from the client
	Text  string
}

// maxFrames is how many frames are shown.
const maxFrames = 300

func (p *page) getRun(w http.ResponseWriter, r *http.Request) {
	p.showRun(w, r, http.StatusOK, nil)
}

// showRun shows the run that the parameter id names, with what is wrong with a form, if anything is.
func (p *page) showRun(w http.ResponseWriter, r *http.Request, status int, problems map[string]string) {
	id := r.FormValue("id")
	record, found := p.server.Inspect(id)
	if !found {
		p.problem(w, http.StatusNotFound, fmt.Sprintf("There is no run %q: it was never queued, or it ended and is forgotten.", id))
		return
	}
	now := time.Now()
	view := runView{
		RunRecord: record, story: tell(record, now), Name: nameOf(record.Plan), Versions: versions(record.Events),
		Final: pretty(record.FinalState), Input: pretty(record.Input), Search: r.FormValue("find"), Problems: problems,
		Credential: namesCredential(record.Plan),
		Cancelable: !record.State.Final() && (record.State == "available" || p.server.Mode() == mockserver.Extended),
		Fixture:    reported(record),
		Again:      r.FormValue("input"),
	}
	summary := mockserver.RunSummary{EnqueuedAt: record.EnqueuedAt, ClaimedAt: record.ClaimedAt, FinishedAt: record.FinishedAt}
	view.Waited, view.Took = short(summary.Waited(now)), took(summary)
	if record.ErrorType != "" || record.ErrorMessage != "" {
		view.Failure = record.ErrorType + ": " + strings.TrimPrefix(record.ErrorMessage, record.ErrorType+": ")
	}
	view.frames(p.server)
	shown := frame{Title: "Run " + id, View: view}
	if r.Method == http.MethodGet { // the answer to a form has no address at which it could be asked for again
		shown.Follow = "/events?run=" + url.QueryEscape(id)
	}
	p.show(w, status, "run", shown)
}

// frames looks up the transcript.
func (v *runView) frames(server *mockserver.Server) {
	frames, whole, _ := server.RunTranscript(v.ID) // the run is known
	v.Whole, v.Kept = whole, len(frames)
	search := strings.ToLower(v.Search)
	for _, f := range frames {
		text := string(f.Data)
		if f.Binary {
			text = fmt.Sprintf("binary: %q", f.Data)
		}
		if len(v.Frames) < maxFrames && strings.Contains(strings.ToLower(text), search) {
			v.Frames = append(v.Frames, shownFrame{Exchange: f, After: f.At.Sub(v.EnqueuedAt), In: f.Direction == 0, Text: cut(text)})
		}
	}
}

func nameOf(plan json.RawMessage) string {
	var named struct{ Name string }
	_ = json.Unmarshal(plan, &named) // of another type, it is none
	return named.Name
}

func namesCredential(plan json.RawMessage) bool {
	return bytes.Contains(plan, []byte(`"credential`))
}

// versions is what the worker told of itself with run:start.
func versions(events []mockserver.Event) string {
	for _, e := range events {
		if e.Event != "run:start" {
			continue
		}
		var told struct{ Versions json.RawMessage }
		if json.Unmarshal(e.Payload, &told) == nil && told.Versions != nil {
			return pretty(told.Versions)
		}
	}
	return ""
}

func (p *page) postAgain(w http.ResponseWriter, r *http.Request) {
	run, err := p.server.Copy(r.FormValue("id"))
	if err != nil {
		p.problem(w, http.StatusNotFound, "The run cannot be queued again: "+err.Error()+".")
		return
	}
	if input := strings.TrimSpace(r.FormValue("input")); input != "" {
		if problem := syntax([]byte(input)); problem != "" {
			p.showRun(w, r, http.StatusUnprocessableEntity, map[string]string{"input": problem})
			return
		}
		run.Dataclip = json.RawMessage(input)
	}
	id, err := p.server.Enqueue(run)
	if err != nil {
		p.showRun(w, r, http.StatusUnprocessableEntity, map[string]string{"again": err.Error()})
		return
	}
	p.server.Wake()
	see(w, "/page/run", url.Values{"id": {id}})
}

func (p *page) postCancel(w http.ResponseWriter, r *http.Request) {
	id := r.FormValue("id")
	if err := p.server.Cancel(id, "cancelled on the page of the mock server"); err != nil {
		p.showRun(w, r, http.StatusConflict, map[string]string{"cancel": err.Error()})
		return
	}
	see(w, "/page/run", url.Values{"id": {id}})
}

// getPlan sends the run as a file that phxworker run takes, and POST /run. Credentials are left out: they are secrets.
func (p *page) getPlan(w http.ResponseWriter, r *http.Request) {
	p.download(w, r, ".json", func(mockserver.RunRecord) (map[string]any, error) { return nil, nil })
}

// getFixture sends the run as a file that [github.com/phxworker/phxworker/examples.Parse] takes: with how it ended.
func (p *page) getFixture(w http.ResponseWriter, r *http.Request) {
	p.download(w, r, "-fixture.json", func(record mockserver.RunRecord) (map[string]any, error) {
		if !reported(record) {
			return nil, errors.New("it has not come to an end that a worker reported")
		}
		expect := map[string]string{"reason": record.Reason}
		if record.ErrorType != "" {
			expect["error_type"] = record.ErrorType
		}
		return map[string]any{
			"about": "Run " + record.ID + ", which ended as " + record.Reason + " on " + record.FinishedAt.UTC().Format(time.DateOnly) + ".",
			"queue": record.Queue, "expect": expect, "meta": nil,
		}, nil
	})
}

// reported says whether a worker has told how the run ended.
func reported(record mockserver.RunRecord) bool {
	return record.State.Final() && record.State != "lost" && !record.ClaimedAt.IsZero()
}

// download sends a plan without its id, with its input, and with the fields that more returns; nil takes one out.
func (p *page) download(w http.ResponseWriter, r *http.Request, suffix string, more func(mockserver.RunRecord) (map[string]any, error)) {
	id := r.FormValue("id")
	record, found := p.server.Inspect(id)
	run, err := p.server.Copy(id)
	if !found || err != nil {
		p.problem(w, http.StatusNotFound, fmt.Sprintf("There is no run %q: it was never queued, or it ended and is forgotten.", id))
		return
	}
	own, err := more(record)
	if err != nil {
		p.problem(w, http.StatusConflict, "The run is no fixture yet: "+err.Error()+".")
		return
	}
	fields := make(map[string]any)
	var plan map[string]json.RawMessage
	_ = json.Unmarshal(run.Plan, &plan) // it was queued as one
	for name, value := range plan {
		fields[name] = value
	}
	if record.Input != nil {
		fields["dataclip"] = record.Input
		delete(fields, "dataclip_id")
	}
	maps.Copy(fields, own)
	maps.DeleteFunc(fields, func(_ string, value any) bool { return value == nil })
	var out bytes.Buffer
	enc := json.NewEncoder(&out)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(fields); err != nil {
		p.problem(w, http.StatusInternalServerError, "The plan cannot be written: "+err.Error()+".")
		return
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.Header().Set("Content-Disposition", `attachment; filename="`+fileName(id)+suffix+`"`)
	_, _ = out.WriteTo(w) // else the browser has gone
}

// fileName is an id as far as it can be the name of a file anywhere.
func fileName(id string) string {
	name := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '_'
	}, id)
	return name[:min(len(name), 100)]
}

// syntax says what is wrong with a text that is to be JSON, and where; empty if nothing is.
func syntax(text []byte) string {
	if problem := lightning.Syntax(text); problem != "" {
		return problem + lightning.HintAt(text)
	}
	return ""
}
