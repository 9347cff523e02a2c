package main

import (
	"fmt"
	"io"

	"github.com/phxworker/phxworker/mockserver"
)

// greet tells what a worker and a shell need to know.
func greet(w io.Writer, server *mockserver.Server) {
	secret := "(as given)"
	if server.Secret() == defaultSecret {
		secret = defaultSecret
	}
	key := server.PublicKey()
	if key == "" {
		key = "(none: run tokens are opaque)"
	}
	name := "mock Lightning"
	if server.Mode() == mockserver.Extended {
		name = "mock Lightning with extensions"
	}
	fmt.Fprintf(w, `%[5]s at %[1]s (stop with Ctrl+C)

worker URL     %[2]s
WORKER_SECRET  %[3]s
WORKER_LIGHTNING_PUBLIC_KEY (to verify run tokens)
%[4]s

Queue a run, and look at it:
  curl -X POST '%[1]s/run?wait=10' -d '{"id":"run-1","jobs":[{"id":"a","adaptor":"@openfn/language-common","body":"fn(state => ({ ...state, hello: 42 }))"}]}'
  curl %[1]s/run/run-1
`, server.HTTPURL(), server.URL(), secret, key, name)
}
