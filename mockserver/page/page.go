package page

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver"
)

//go:embed *.html page.css page.js
var files embed.FS

// policy lets a document load the page's own style and script, read from its own server, and send forms there.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// New returns what [mockserver.Config.Page] takes. The examples are files *.json that can be picked when a run is queued,
// such as those of package examples; nil is none.
func New(examples fs.FS) func(*mockserver.Server) http.Handler {
	return func(server *mockserver.Server) http.Handler {
		p := &page{server: server, examples: examples, documents: make(map[string]*template.Template)}
		for _, name := range []string{"runs", "run", "queue", "workers", "faults", "problem"} {
			p.documents[name] = template.Must(template.New("layout.html").Funcs(functions).ParseFS(files, "layout.html", name+".html"))
		}
		return p.routes()
	}
}

// page answers browsers. It keeps nothing.
type page struct {
	server    *mockserver.Server
	examples  fs.FS
	documents map[string]*template.Template
}

// maxForm is the largest form taken, in bytes: that of the largest plan.
const maxForm = 100 << 20

func (p *page) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.getRuns)
	mux.HandleFunc("GET /page/run", p.getRun)
	mux.HandleFunc("GET /page/plan", p.getPlan)
	mux.HandleFunc("GET /page/fixture", p.getFixture)
	mux.HandleFunc("POST /page/again", p.postAgain)
	mux.HandleFunc("POST /page/cancel", p.postCancel)
	mux.HandleFunc("GET /page/queue", p.getQueue)
	mux.HandleFunc("POST /page/queue", p.postQueue)
	mux.HandleFunc("GET /page/workers", p.getWorkers)
	mux.HandleFunc("POST /page/workers", p.postWorkers)
	mux.HandleFunc("GET /page/faults", p.getFaults)
	mux.HandleFunc("POST /page/faults", p.postFaults)
	mux.HandleFunc("POST /page/faults/remove", p.postRemove)
	mux.HandleFunc("GET /page/page.css", asset("page.css", "text/css; charset=utf-8"))
	mux.HandleFunc("GET /page/page.js", asset("page.js", "text/javascript; charset=utf-8"))
	mux.HandleFunc("/page/", func(w http.ResponseWriter, r *http.Request) {
		p.problem(w, http.StatusNotFound, fmt.Sprintf("There is no page %s.", r.URL.Path))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Cache-Control", "no-store")
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		r.Body = http.MaxBytesReader(w, r.Body, maxForm)
		mux.ServeHTTP(w, r)
	})
}

func asset(name, kind string) http.HandlerFunc {
	data, _ := files.ReadFile(name) // it is embedded
	return func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(data) // else the browser has gone
	}
}

// frame is what the layout shows around a document.
type frame struct {
	Title    string
	Here     string // the path of the tab that is open
	Follow   string // where the script listens for changes; empty for nowhere
	Extended bool
	Stats    mockserver.Stats
	View     any
}

// show writes a document. A status of 200 is that of a page which keeps itself up to date.
func (p *page) show(w http.ResponseWriter, status int, name string, f frame) {
	f.Stats, f.Extended = p.server.Stats(), p.server.Mode() == mockserver.Extended
	var document bytes.Buffer
	if err := p.documents[name].Execute(&document, f); err != nil {
		http.Error(w, "the page cannot be made: "+err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = document.WriteTo(w) // else the browser has gone
}

// problem shows a sentence that says why there is nothing else to show.
func (p *page) problem(w http.ResponseWriter, status int, sentence string) {
	p.show(w, status, "problem", frame{Title: "mock Lightning", View: sentence})
}

// see sends the browser to a document of the page, after a form.
func see(w http.ResponseWriter, path string, query url.Values) {
	if len(query) > 0 {
		path += "?" + query.Encode()
	}
	w.Header().Set("Location", path)
	w.WriteHeader(http.StatusSeeOther)
}

var functions = template.FuncMap{
	"short": short, "clock": func(t time.Time) string { return t.UTC().Format("15:04:05.000") },
	"mark": mark, "tone": tone, "waited": waited, "took": took, "dots": dots, "lower": strings.ToLower, "path": url.PathEscape,
}

// mark is a state as a sign, for who sees no colours.
func mark(state mockserver.State) string {
	switch tone(state) {
	case "good":
		return "✓"
	case "waiting":
		return "·"
	case "busy":
		return "▸"
	}
	return "✗"
}

// tone sorts states for the eye; they are always written out as well.
func tone(state mockserver.State) string {
	switch state {
	case "success":
		return "good"
	case "available":
		return "waiting"
	case "claimed", "started":
		return "busy"
	case "failed", "cancelled":
		return "attention"
	}
	return "bad"
}

func waited(r mockserver.RunSummary) string { return short(r.Waited(time.Now())) }

func took(r mockserver.RunSummary) string {
	if r.ClaimedAt.IsZero() {
		return "–"
	}
	return short(r.Took(time.Now()))
}

// short writes a time as a person wants to read it.
func short(d time.Duration) string {
	switch {
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1f ms", float64(d)/float64(time.Millisecond))
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%.2f s", d.Seconds())
	}
	return d.Round(time.Second).String()
}

// maxDots is how many slots are shown as one dot each.
const maxDots = 60

// dots is a group's slots, the taken ones first; empty if they are too many to count by eye.
func dots(g mockserver.GroupRecord) string {
	if g.Slots > maxDots || g.Running > maxDots {
		return ""
	}
	return strings.Repeat("●", g.Running) + strings.Repeat("○", max(g.Slots-g.Running, 0))
}
