package web

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// controlled lets through only who has the token, and notes who did what, and whether
// it was done.
func (s *Server) controlled(control http.HandlerFunc) http.HandlerFunc {
	return func(answer http.ResponseWriter, r *http.Request) {
		w := &recorder{ResponseWriter: answer, status: http.StatusOK}
		defer s.note(w, r)
		switch {
		case s.hasToken(r):
			control(w, r)
		case s.cfg.Token == "":
			writeError(w, http.StatusForbidden, "controls are off, for this worker has no token: set --http-token-file or WORKER_HTTP_TOKEN; its log says why it has made none")
		default:
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(http.StatusUnauthorized)
		}
	}
}

// open lets through whoever reaches the server, but no web page that is not its own.
func (s *Server) open(handle http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		switch {
		case s.hasToken(r):
			handle(w, r)
		case !s.named(r.Host):
			writeError(w, http.StatusForbidden, "this worker does not know itself by that name: ask it by its IP address or by a name without a dot, or send its token")
		case s.origins.Check(r) != nil:
			writeError(w, http.StatusForbidden, "no page of another origin may do this")
		default:
			handle(w, r)
		}
	}
}

// note logs a control that was answered. What somebody has named who may not control
// the worker is left out: it could be anything, and another each time.
func (s *Server) note(w *recorder, r *http.Request) {
	attrs := []any{"control", r.Pattern}
	if w.status != http.StatusUnauthorized && w.status != http.StatusForbidden {
		if id := r.PathValue("id"); id != "" {
			attrs = append(attrs, "run_id", id)
		}
		if group := cmp.Or(r.PathValue("name"), r.URL.Query().Get("group")); group != "" {
			attrs = append(attrs, "group", group)
		}
	}
	// Without the port, which is another each time: a line that repeats is to be
	// seen as one.
	host, _, _ := net.SplitHostPort(r.RemoteAddr)
	attrs = append(attrs, "remote", host, "status", w.status)
	if w.status >= http.StatusBadRequest {
		s.log.Warn("control refused", attrs...)
		return
	}
	s.log.Info("control", attrs...)
}

// recorder keeps the status of an answer.
type recorder struct {
	http.ResponseWriter

	status int
}

func (r *recorder) WriteHeader(status int) {
	r.status = status
	r.ResponseWriter.WriteHeader(status)
}

// hasToken compares digests, which have one length, so that time tells nothing
// about the token.
func (s *Server) hasToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.cfg.Token))
	return s.cfg.Token != "" && strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// named reports whether a Host header names the worker in a way that no web page
// can bring about. A page anywhere can have its own name lead to this machine (DNS
// rebinding), and is of the worker's own origin then; but it can send no other name,
// and has none that only a network of one's own gives.
func (s *Server) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	host = strings.ToLower(host)
	return !strings.Contains(host, ".") || host == strings.ToLower(s.hostname) || host == strings.ToLower(s.cfg.Host) ||
		slices.ContainsFunc(ownNetworks, func(end string) bool { return strings.HasSuffix(host, end) })
}

// ownNetworks are how names end that the public DNS never has, a cluster's among them.
var ownNetworks = []string{".local", ".internal", ".localhost"}
