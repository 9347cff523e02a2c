package wstest

import (
	"net/http"
	"testing"
	"time"
)

// Serve serves the handler on a new listener until the end of the test. What
// the test registers as cleanup afterwards runs before that, while the handler
// can still be reached.
func Serve(tb testing.TB, handler http.Handler) *Listener {
	tb.Helper()
	listener := NewListener()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(listener)
	}()
	tb.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return listener
}
