package mockserver_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

// Whoever asks at the door, or for what is not there, is told what is.
func TestTheRoutesAreListed(t *testing.T) {
	m := newInMemory(t, mockserver.Config{})
	type list struct {
		Error  string
		Routes []struct{ Route, Does string }
	}
	ask := func(method, path string) (status int, got list) {
		status, body := call(t, m, method, path, "")
		require.NoError(t, json.Unmarshal([]byte(body), &got), body)
		return status, got
	}
	status, front := ask("GET", "/")
	require.Equal(t, 200, status)
	require.NotEmpty(t, front.Routes)
	for _, r := range front.Routes {
		require.NotEmpty(t, r.Does, r.Route)
		method, path, _ := strings.Cut(strings.ReplaceAll(r.Route, "{id}", "x"), " ")
		_, body := call(t, m, method, path, "")
		require.NotContains(t, body, "there is no "+method, "a route that is listed is there")
	}
	for _, unknown := range []string{"GET /nope/websocket", "DELETE /run/known", "GET /run", "POST /"} {
		method, path, _ := strings.Cut(unknown, " ")
		status, got := ask(method, path)
		require.Equal(t, 404, status, unknown)
		require.Equal(t, "there is no "+unknown+"; these are the routes", got.Error)
		require.Equal(t, front.Routes, got.Routes)
	}
}
