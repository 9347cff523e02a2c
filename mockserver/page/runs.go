package page

import (
	"fmt"
	"net/http"
	"net/url"
	"strconv"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/lightning"
)

// runsView is the list of runs.
type runsView struct {
	mockserver.RunPage

	States   []mockserver.State
	Asked    map[string]string // the filters, by their names
	Filtered bool
	Older    string // the query of the next page, empty if there is none
	Later    bool   // this is not the first page
}

func (p *page) getRuns(w http.ResponseWriter, r *http.Request) {
	values := r.URL.Query()
	query, err := mockserver.ParseRunQuery(values)
	if err != nil {
		p.problem(w, http.StatusBadRequest, fmt.Sprintf("This list cannot be shown: %v.", err))
		return
	}
	view := runsView{RunPage: p.server.Runs(query), States: lightning.States, Asked: make(map[string]string), Later: query.After > 0}
	older := make(url.Values)
	for _, name := range []string{"state", "queue", "worker", "q", "limit"} {
		if value := values.Get(name); value != "" {
			view.Asked[name] = value
			older[name] = values[name]
			view.Filtered = view.Filtered || name != "limit"
		}
	}
	if view.Next > 0 {
		older.Set("after", strconv.FormatUint(view.Next, 10))
		view.Older = "?" + older.Encode()
	}
	p.show(w, http.StatusOK, "runs", frame{Title: "Runs", Here: "/", Follow: "/events", View: view})
}
