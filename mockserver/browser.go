package mockserver

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

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
