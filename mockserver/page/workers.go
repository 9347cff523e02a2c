package page

import (
	"fmt"
	"net/http"

	"github.com/phxworker/phxworker/mockserver/fault"
)

func (p *page) getWorkers(w http.ResponseWriter, _ *http.Request) {
	p.show(w, http.StatusOK, "workers", frame{Title: "Workers", Here: "/page/workers", Follow: "/events", View: p.server.Workers()})
}

// postWorkers does something to one worker.
func (p *page) postWorkers(w http.ResponseWriter, r *http.Request) {
	id, do := r.FormValue("id"), r.FormValue("do")
	if id == "" {
		p.problem(w, http.StatusUnprocessableEntity, "No worker was named.")
		return
	}
	done := false
	switch do {
	case "kick":
		_, err := p.server.AddFault(fault.Rule{Event: fault.Now, Action: fault.Close, Code: 1000, Worker: id})
		done = err == nil
	case "pause":
		done = p.server.PauseWorker(id)
	case "resume":
		done = p.server.ResumeWorker(id)
	case "drain":
		done = p.server.DrainWorker(id)
	}
	if !done {
		p.problem(w, http.StatusConflict, fmt.Sprintf("The worker %s could not be told to %s: it is not there any more, or has not agreed on that.", id, do))
		return
	}
	see(w, "/page/workers", nil)
}
