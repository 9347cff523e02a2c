package web

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/runner"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

//go:embed page.js
var pageJS string

// page is the status for people: one document that loads nothing from anywhere
// else, and is no less without its script, only less smooth.
type page struct {
	template *template.Template
	policy   string // of the Content-Security-Policy header
}

// view is what the template shows.
type view struct {
	Status

	At         time.Time
	Hour       hour
	ServerPage string
	// CSS and Script are this package's own files, as the policy has their sums.
	CSS    template.CSS
	Script template.JS
}

func newPage() *page {
	return &page{
		template: template.Must(template.New("page").Funcs(template.FuncMap{
			"bar": barOf, "clock": clock, "mean": mean, "reasons": keys[phxworker.Reason, int], "lost": lost, "reason": reasonOf,
			"doing": Doing, "remark": Remark, "note": Note, "elsewhere": elsewhere, "undelivered": isUndelivered,
		}).Parse(pageHTML)),
		// The script may ask this server for the page again; nothing else is loaded,
		// sent or framed.
		policy: fmt.Sprintf("default-src 'none'; style-src '%s'; script-src '%s'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
			sum(pageCSS), sum(pageJS)),
	}
}

// sum is how a policy names a style or script that may be in the document.
func sum(text string) string {
	digest := sha256.Sum256([]byte(text))
	return "sha256-" + base64.StdEncoding.EncodeToString(digest[:])
}

func (s *Server) servePage(w http.ResponseWriter, _ *http.Request) {
	var document bytes.Buffer
	if err := s.page.write(&document, view{Status: s.status(), Hour: s.history.hour(), ServerPage: s.cfg.ServerPage, At: time.Now().UTC()}); err != nil {
		s.log.Error("the status page cannot be made", "error", err)
		http.Error(w, "the page cannot be made; see the log, and /status", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", s.page.policy)
	_, _ = document.WriteTo(w) // else the client has gone
}

func (p *page) write(document *bytes.Buffer, v view) error {
	v.CSS, v.Script = template.CSS(pageCSS), template.JS(pageJS) //nolint:gosec // both are files of this package
	return p.template.Execute(document, v)
}

// bar is a group's slots as a picture, in units of a slot. Width is that of the
// largest group, so that a slot is as wide in all of them.
type bar struct {
	Width int
	Parts []part
}

// part is one slot, or in a large group all that are alike.
type part struct {
	Kind     string // "running", "claimed" or "open"
	X, Width float64
}

// Widest returns how many slots the bars of the page have room for.
func (v view) Widest() int {
	widest := 1
	for _, g := range v.Groups {
		widest = max(widest, g.Size, g.Running+g.Claimed)
	}
	return widest
}

// maxCells is how many slots are shown as one each.
const maxCells = 40

func barOf(g phxworker.GroupStats, widest int) bar {
	b := bar{Width: widest}
	cells := b.Width <= maxCells
	x := 0
	for _, state := range []struct {
		kind string
		n    int
	}{{"running", g.Running}, {"claimed", g.Claimed}, {"open", g.Open}} {
		if !cells && state.n > 0 {
			b.Parts = append(b.Parts, part{state.kind, float64(x), float64(state.n)})
		}
		for i := 0; cells && i < state.n; i++ {
			b.Parts = append(b.Parts, part{state.kind, float64(x+i) + 0.04, 0.92})
		}
		x += state.n
	}
	return b
}

// reasonOf sorts reasons for the eye; the page writes them out as well.
func reasonOf(reason phxworker.Reason) string {
	switch reason {
	case runner.Success:
		return "good"
	case runner.Fail, runner.Cancel:
		return "attention"
	}
	return "bad"
}

// lost says in words what Connection.Lost counts: failed dials are no connections
// that were lost.
func lost(counts map[channel.Cause]uint64) string {
	var parts []string
	for _, cause := range keys(counts) {
		if cause != channel.CauseDial {
			parts = append(parts, fmt.Sprintf("%d %s", counts[cause], cause))
		}
	}
	text := "never"
	if len(parts) > 0 {
		text = strings.Join(parts, ", ")
	}
	switch dials := counts[channel.CauseDial]; dials {
	case 0:
		return text
	case 1:
		return text + "; could not connect once"
	default:
		return fmt.Sprintf("%s; could not connect %d times", text, dials)
	}
}

// mean returns an average as people read it, empty of nothing.
func mean(h phxworker.Histogram) string {
	if h.Count == 0 {
		return ""
	}
	return phxworker.Seconds(h.Mean()).String()
}

func clock(t time.Time) string { return t.UTC().Format(time.TimeOnly) }

// keys returns the names that have a number, in order.
func keys[K ~string, N int | uint64](counts map[K]N) []K {
	names := make([]K, 0, len(counts))
	for name, n := range counts {
		if n > 0 {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
