package web

import (
	"cmp"
	"crypto/sha256"
	"crypto/subtle"
	"net"
	"net/http"
	"strings"
)

// controlled lets through only who may control the worker, and notes who did what,
// and whether it was done.
func (s *Server) controlled(control http.HandlerFunc) http.HandlerFunc {
	return func(answer http.ResponseWriter, r *http.Request) {
		w := &recorder{ResponseWriter: answer, status: http.StatusOK}
		defer s.note(w, r)
		refusal := s.refuse(r)
		if refusal == nil {
			control(w, r)
			return
		}
		if refusal.status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
			w.WriteHeader(refusal.status)
			return
		}
		writeError(w, refusal.status, refusal.reason)
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

// refusal is why a request may not control the worker.
type refusal struct {
	status int
	reason string // empty where nothing is to be told
}

// refuse returns nil for a request that may control the worker.
func (s *Server) refuse(r *http.Request) *refusal {
	switch {
	case s.cfg.Token != "":
		if !s.hasToken(r) {
			return &refusal{status: http.StatusUnauthorized}
		}
	case !s.cfg.Loopback:
		return &refusal{http.StatusForbidden, "controls are off: set --http-token (WORKER_HTTP_TOKEN), or listen on this machine only with --host 127.0.0.1"}
	case !namesLoopback(r.Host):
		// A page anywhere can give its own name this machine's address (DNS
		// rebinding); what it cannot do is send another name.
		return &refusal{http.StatusForbidden, "controls without a token are for requests to localhost, 127.0.0.1 or [::1]: use one of these as the host, or set --http-token"}
	case s.origins.Check(r) != nil:
		return &refusal{http.StatusForbidden, "controls without a token are not for pages of other origins: set --http-token"}
	}
	return nil
}

// hasToken compares digests, which have one length, so that time tells nothing
// about the token.
func (s *Server) hasToken(r *http.Request) bool {
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	got, want := sha256.Sum256([]byte(token)), sha256.Sum256([]byte(s.cfg.Token))
	return strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare(got[:], want[:]) == 1
}

// namesLoopback reports whether the Host header of a request is this machine's.
func namesLoopback(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.Trim(host, "[]")
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}
