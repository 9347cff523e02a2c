package phoenix

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"

	"github.com/gorilla/websocket"
)

// ServeHTTP upgrades the request and serves the socket until it ends.
func (e *Endpoint) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if !e.enter() {
		refuse(w, http.StatusServiceUnavailable, "the server is closing")
		return
	}
	defer e.done.Done()
	if e.isDown() {
		hangUp(w)
		return
	}
	name, ok := e.admit(w, r)
	if !ok || !e.spare(w, r, name) {
		return
	}
	hijacked := &hijacker{ResponseWriter: w}
	conn, err := e.upgrader.Upgrade(hijacked, r, nil)
	if err != nil {
		return // the upgrader has answered
	}
	s := newSocket(e, conn, hijacked.wire, name)
	if !e.add(s) {
		_ = conn.Close()
		return
	}
	defer e.remove(s)
	s.run()
}

// admit answers a request that is not to be upgraded, or says who it comes from. The order is Phoenix's,
// the serializer before the token before the upgrade, except that a request
// with no parameters at all is first of all told that this is a websocket.
func (e *Endpoint) admit(w http.ResponseWriter, r *http.Request) (name string, ok bool) {
	params := r.URL.Query()
	vsn, token := params.Get("vsn"), params.Get("token")
	switch {
	case r.Method != http.MethodGet:
		refuse(w, http.StatusBadRequest, "a websocket is opened by a GET")
		return "", false
	case vsn == "" && token == "" && !websocket.IsWebSocketUpgrade(r):
		refuseUpgrade(w, r)
		return "", false
	case vsn == "":
		refuse(w, http.StatusForbidden, "the parameter vsn is missing: this endpoint speaks serializer 2.0.0 only, so connect with vsn=2.0.0")
		return "", false
	case !strings.HasPrefix(vsn, "2.0."):
		refuse(w, http.StatusForbidden, "")
		return "", false
	}
	name, err := e.cfg.App.Connect(params)
	if err != nil {
		e.cfg.Logger.Warn("socket refused", "error", err)
		refuse(w, http.StatusUnauthorized, "Unauthorized")
		return "", false
	}
	if !websocket.IsWebSocketUpgrade(r) {
		refuseUpgrade(w, r)
		return "", false
	}
	return name, true
}

func refuseUpgrade(w http.ResponseWriter, r *http.Request) {
	refuse(w, http.StatusBadRequest, fmt.Sprintf("'connection' header must contain 'upgrade', got %q", r.Header.Values("Connection")))
}

// refuse answers with Phoenix's headers, which have no content type.
func refuse(w http.ResponseWriter, status int, body string) {
	w.Header()["Content-Type"] = nil
	w.Header().Set("Cache-Control", "max-age=0, private, must-revalidate")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body) //nolint:gosec // what it quotes is a header that no page can set
}

// hijacker slips a [wire] under the websocket library.
type hijacker struct {
	http.ResponseWriter
	wire *wire
}

var _ http.Hijacker = (*hijacker)(nil)

func (h *hijacker) Hijack() (net.Conn, *bufio.ReadWriter, error) {
	conn, rw, err := http.NewResponseController(h.ResponseWriter).Hijack()
	if err != nil {
		return nil, nil, err
	}
	h.wire = &wire{Conn: conn}
	return h.wire, rw, nil
}
