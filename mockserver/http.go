package mockserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"unicode/utf8"

	"github.com/phxworker/phxworker/mockserver/lightning"
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
		{"POST /run/{id}/again", "queues a copy of a run; a body is its input", s.postAgain},
		{"POST /drain", "tells the workers to claim no more, to end their runs and to leave; ?worker=ID tells that one alone", s.postDrain},
		{"GET /workers", "the workers, their groups, what they have and what they told last", s.getWorkers},
		{"POST /workers/{id}/pause", "gives a worker no more runs (in extended mode)", s.postWorker(s.PauseWorker)},
		{"POST /workers/{id}/resume", "gives it runs again", s.postWorker(s.ResumeWorker)},
		{"GET /run/{id}", "what is known of a run, with every event received", s.getRun},
		{"GET /run/{id}/transcript", "every frame of a run's topic, both ways", s.getTranscript},
		{"GET /runs", "the runs, those queued last first; ?state=, ?queue=, ?worker=, ?q= for a text, ?limit=, ?after= the \"next\" of the page before", s.getRuns},
		{"GET /events", "what happens, as server-sent events; ?run=ID for one run; ?after= or Last-Event-ID for those missed", s.getEvents},
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
	var page http.Handler
	if s.cfg.Page != nil {
		page = s.cfg.Page(s)
		mux.Handle("/page/", page)
	}
	mux.HandleFunc("GET /{$}", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Vary", "Accept")
		if page != nil && strings.Contains(r.Header.Get("Accept"), "text/html") {
			page.ServeHTTP(w, r)
			return
		}
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

// maxBody is the largest body taken, in bytes: more than any worker could
// fetch, so that plans over the frame limit can be tried.
const maxBody = 32 << 20

// postBody takes any JSON and stores it under the id of the path.
func (s *Server) postBody(store func(id string, body json.RawMessage)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		body, ok := readJSON(w, r)
		if !ok {
			return
		}
		store(r.PathValue("id"), body)
		writeJSON(w, http.StatusCreated, map[string]string{"id": r.PathValue("id")})
	}
}

// readJSON reads the body, or answers why it cannot.
func readJSON(w http.ResponseWriter, r *http.Request) (json.RawMessage, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxBody))
	var tooBig *http.MaxBytesError
	switch {
	case errors.As(err, &tooBig):
		writeJSON(w, http.StatusRequestEntityTooLarge, errorBody("the body is over 32 MiB"))
		return nil, false
	case err != nil:
		writeJSON(w, http.StatusBadRequest, errorBody("the body ended early"))
		return nil, false
	}
	if body = bytes.Trim(body, " \t\r\n"); len(body) == 0 {
		writeJSON(w, http.StatusBadRequest, errorBody("the body is empty: send JSON"))
		return nil, false
	}
	var raw json.RawMessage
	if err := json.Unmarshal(body, &raw); err != nil {
		writeJSON(w, http.StatusBadRequest, errorBody("the body is not JSON: "+err.Error()+lightning.HintAt(body)))
		return nil, false
	}
	if !utf8.Valid(body) {
		// Go's decoder lets it pass, but a text frame must not hold it.
		writeJSON(w, http.StatusBadRequest, errorBody("the body is not UTF-8"))
		return nil, false
	}
	return body, true
}

func errorBody(message string) map[string]string { return map[string]string{"error": message} }

// fieldError is the shape in which Lightning names a bad field.
func fieldError(field, message string) map[string]map[string][]string {
	return map[string]map[string][]string{"errors": {field: {message}}}
}

// writeJSON answers with one line.
func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	_ = enc.Encode(v) // the client has gone
}

// keepPagesOut lets no web page use the HTTP interface, but for one of the server's own
// origin. A browser on a developer's machine reaches a server on loopback, and a page
// that is open there could queue a run, whose code a worker on that machine executes.
//
// A page can also have its own name lead to this machine (DNS rebinding), and then is of
// the server's origin; but it can send no other name as the host, and has none
// without a dot. Only connections over loopback are looked at for that:
// a server for a network has names that it does not know.
func keepPagesOut(next http.Handler) http.Handler {
	origins := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case origins.Check(r) != nil:
			writeJSON(w, http.StatusForbidden, errorBody("no page of another origin may do this: ask with a program, such as curl"))
		case overLoopback(r) && !named(r.Host):
			writeJSON(w, http.StatusForbidden, errorBody(fmt.Sprintf("%q may be the name of a web page that leads here: ask localhost or 127.0.0.1", r.Host)))
		default:
			next.ServeHTTP(w, r)
		}
	})
}

func overLoopback(r *http.Request) bool {
	addr, ok := r.Context().Value(http.LocalAddrContextKey).(*net.TCPAddr)
	return ok && addr.IP.IsLoopback()
}

// named reports whether a host is an address or a name without a dot.
func named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	_, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return err == nil || !strings.Contains(host, ".")
}
