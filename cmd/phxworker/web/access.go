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
			writeError(w, http.StatusForbidden, "controls are off, for this worker has no token: "+s.cfg.ControlsOff)
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
		case fromBrowser(r) && !s.named(r.Host):
			writeError(w, http.StatusForbidden, "a web page could have that name lead here: in a browser, ask this worker by its IP address or by a name without a dot, or send its token")
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

// fromBrowser reports whether a browser may have sent the request. A page of the worker's
// own origin can choose some headers, the User-Agent in some browsers, but it cannot keep
// Accept-Language from being sent, nor Origin with a POST. Node's fetch sends the first,
// too, but is told by one of the Sec- headers without the others, which no page can set.
func fromBrowser(r *http.Request) bool {
	has := func(name string) bool { return len(r.Header.Values(name)) > 0 }
	if has("Origin") || has("Sec-Fetch-Site") || strings.HasPrefix(r.UserAgent(), "Mozilla/") {
		return true
	}
	return has("Accept-Language") && !has("Sec-Fetch-Mode")
}

// named reports whether a browser may ask for the worker by this host. A page from
// anywhere can have its own name lead to this machine (DNS rebinding): then it is of the
// worker's own origin, and may read what the worker answers. But the browser sends that
// name as the host. So what is let through is what such a page cannot be called: an
// address, a name without a dot, one of the worker's own, one that is in no public DNS.
func (s *Server) named(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err == nil {
		return true
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return !strings.Contains(host, ".") || host == strings.ToLower(s.hostname) || host == strings.ToLower(s.cfg.Host) ||
		slices.ContainsFunc(ownNetworks, func(end string) bool { return strings.HasSuffix(host, end) })
}

// ownNetworks are how names end that the public DNS does not have: those of a cluster, and of
// a network at home.
var ownNetworks = []string{".local", ".internal", ".localhost", ".svc", ".lan", ".home.arpa"}
