package mockserver

import (
	"fmt"
	"net/http"
)

// route is one thing that the HTTP interface does.
type route struct {
	Route string `json:"route"` // method and path, as a pattern of http.ServeMux
	Does  string `json:"does"`  // for people

	handler http.HandlerFunc
}

func (s *Server) newRoutes() http.Handler {
	routes := []route{
		{"POST /run", "queues the plan in the body; ?queue=NAME, ?priority=immediate, ?wakeup to tell the workers at once, ?wait=SECONDS for the result", s.postRun},
		{"POST /run/{id}/cancel", "ends a run that waits; has the worker of another told to; a body may hold a message", s.postCancel},
		{"POST /run/{id}/notify", "sends the JSON object in the body to whatever executes the run", s.postNotify},
		{"POST /drain", "tells the workers to claim no more, to end their runs and to leave", s.postDrain},
		{"GET /workers", "the workers, what they own and what they told last (in extended mode)", s.getWorkers},
		{"GET /run/{id}", "what is known of a run, with every event received", s.getRun},
		{"POST /credentials/{id}", "sets the body that fetch:credential answers with", s.postBody(s.AddCredential)},
		{"PUT /credentials/{id}", "the same", s.postBody(s.AddCredential)},
		{"POST /dataclips/{id}", "sets the input of the runs whose dataclip_id names it", s.postBody(s.AddDataclip)},
		{"PUT /dataclips/{id}", "the same", s.postBody(s.AddDataclip)},
		{"GET /stats", "counts", s.getStats},
		{"GET /faults", "the seed, the faults with their counts, and what they struck", s.getFaults},
		{"POST /faults", "adds the fault in the body, or a list of them", s.postFaults},
		{"DELETE /faults", "takes all faults away", s.deleteFaults},
		{"DELETE /faults/{id}", "takes one fault away", s.deleteFault},
		{"GET /worker/websocket", "is where workers connect; give them the URL without /websocket", nil},
	}
	mux := http.NewServeMux()
	for _, r := range routes {
		if r.handler != nil {
			mux.HandleFunc(r.Route, r.handler)
		}
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string][]route{"routes": routes})
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusNotFound, struct {
			Error  string  `json:"error"`
			Routes []route `json:"routes"`
		}{fmt.Sprintf("there is no %s %s; these are the routes", r.Method, r.URL.Path), routes})
	})
	all := http.NewServeMux()
	all.Handle("/worker/websocket", s.endpoint) // answers other methods as Phoenix does, and asks for a worker's token
	all.Handle("/", keepPagesOut(mux))
	return all
}

func (s *Server) getStats(w http.ResponseWriter, _ *http.Request) {
	writeJSON(w, http.StatusOK, s.Stats())
}
