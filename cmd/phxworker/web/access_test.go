package web

import (
	"net"
	"net/http"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
)

func TestWhoMayControl(t *testing.T) {
	controls := [][2]string{{"POST", "/pause"}, {"POST", "/resume"}, {"PUT", "/groups/none"}, {"POST", "/runs/none/cancel"}, {"POST", "/runs/none/notify"}, {"POST", "/claim"}, {"POST", "/drain"}}
	foreign := func(name, value string) func(*http.Request) {
		return func(r *http.Request) { r.Header.Set(name, value) }
	}
	host := func(host string) func(*http.Request) {
		return func(r *http.Request) { r.Host = host }
	}
	none := func(*http.Request) {}
	tests := []struct {
		name   string
		cfg    Config
		change func(*http.Request)
		want   int // 0: allowed
	}{
		{"neither token nor loopback", Config{}, none, 403},
		{"neither, and a token is sent", Config{}, withToken("x"), 403},
		{"neither, and loopback is claimed", Config{}, host("localhost"), 403},
		{"no token", Config{Token: "t"}, none, 401},
		{"wrong token", Config{Token: "t"}, withToken("T"), 401},
		{"part of the token", Config{Token: "token"}, withToken("tok"), 401},
		{"empty token", Config{Token: "t"}, withToken(""), 401},
		{"another scheme", Config{Token: "t"}, foreign("Authorization", "Basic t"), 401},
		{"right token", Config{Token: "t"}, withToken("t"), 0},
		{"right token, from a page elsewhere", Config{Token: "t"}, func(r *http.Request) { withToken("t")(r); r.Header.Set("Origin", "https://a.example") }, 0},
		{"loopback, with a token set", Config{Token: "t", Loopback: true}, none, 401},
		{"loopback", onLoopback, none, 0},
		{"loopback by name", onLoopback, host("localhost:2222"), 0},
		{"loopback by IPv6", onLoopback, host("[::1]:2222"), 0},
		{"loopback by IPv6 without port", onLoopback, host("[::1]"), 0},
		{"foreign host", onLoopback, host("rebound.example:2222"), 403},
		{"foreign address", onLoopback, host("10.0.0.1:2222"), 403},
		{"a host that begins well", onLoopback, host("localhost.example"), 403},
		{"foreign origin", onLoopback, foreign("Origin", "https://a.example"), 403},
		{"foreign origin, as browsers tell it", onLoopback, foreign("Sec-Fetch-Site", "cross-site"), 403},
		{"another port of this machine", onLoopback, foreign("Origin", "http://127.0.0.1:3000"), 403},
		{"own origin", onLoopback, foreign("Sec-Fetch-Site", "same-origin"), 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, phxworker.Config{}, tt.cfg)
				for _, control := range controls {
					a := h.ask(control[0], control[1], `{"slots":1}`, tt.change)
					switch tt.want {
					case 0:
						require.NotContains(t, []int{401, 403}, a.status, control)
					case 401:
						require.Equal(t, 401, a.status, control)
						require.Empty(t, a.body, "nothing is told")
						require.Equal(t, "Bearer", a.header.Get("Www-Authenticate"))
					default:
						require.Equal(t, tt.want, a.status, control)
						require.Contains(t, a.body, "--http-token")
					}
				}
				settle(0)
				allowed := tt.want == 0
				require.Equal(t, allowed, h.worker.Stats().Phase != phxworker.PhaseRunning, "whether it was drained")
				for _, open := range []string{"/livez", "/startupz", "/status", "/"} {
					require.Equal(t, 200, h.ask("GET", open, "", tt.change).status, "reading is open: %s", open)
				}
				require.NotContains(t, h.log.String(), "Bearer")
			})
		})
	}
}

func TestControlsAreLoggedWithWhereTheyCameFrom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, Config{Token: "very-secret"})
		h.ask("POST", "/pause", "", withToken("very-secret"))
		h.ask("POST", "/resume", "", withToken("guess"))
		h.ask("POST", "/resume?group=manual", "", withToken("very-secret"))
		settle(0)
		require.Regexp(t, `level=INFO msg=control control="POST /pause" remote=\S+ status=200\n`, h.log.String())
		require.Regexp(t, `level=WARN msg="control refused" control="POST /resume" remote=\S+ status=401\n`, h.log.String())
		require.Regexp(t, `level=WARN msg="control refused" control="POST /resume" group=manual remote=\S+ status=404\n`, h.log.String())
		require.NotContains(t, h.log.String(), "very-secret")
		require.NotContains(t, h.log.String(), "guess")
	})
}

func TestRoutesAndMethods(t *testing.T) {
	tests := []struct {
		method, path string
		want         int
		allow        string
	}{
		{"HEAD", "/livez", 200, ""},
		{"HEAD", "/readyz", 200, ""},
		{"HEAD", "/startupz", 200, ""},
		{"HEAD", "/status", 200, ""},
		{"HEAD", "/", 200, ""},
		{"POST", "/livez", 405, "GET, HEAD"},
		{"POST", "/status", 405, "GET, HEAD"},
		{"DELETE", "/", 405, "GET, HEAD"},
		{"GET", "/pause", 405, "POST"},
		{"GET", "/drain", 405, "POST"},
		{"GET", "/claim", 405, "POST"},
		{"GET", "/groups/manual%3E*", 405, "PUT"},
		{"GET", "/runs/r/cancel", 405, "POST"},
		{"GET", "/metrics", 404, ""},
		{"GET", "/page.html", 404, ""},
		{"GET", "/livez/", 404, ""},
		{"GET", "/debug/pprof/", 404, ""},
		{"POST", "/runs/r", 404, ""},
	}
	synctest.Test(t, func(t *testing.T) {
		h := start(t, phxworker.Config{}, onLoopback)
		for _, tt := range tests {
			a := h.ask(tt.method, tt.path, "")
			require.Equal(t, tt.want, a.status, "%s %s", tt.method, tt.path)
			require.Equal(t, tt.allow, a.header.Get("Allow"), "%s %s", tt.method, tt.path)
			require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		}
		h.serve(New(Config{Worker: h.worker, Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("phxworker_connected 1\n"))
		})}))
		require.Equal(t, "phxworker_connected 1\n", h.ask("GET", "/metrics", "").body)
	})
}

func TestLoopbackAddresses(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": true, "127.8.8.8": true, "::1": true, "::": false, "0.0.0.0": false, "10.1.2.3": false} {
		require.Equal(t, want, IsLoopback(&net.TCPAddr{IP: net.ParseIP(address)}), address)
	}
	require.False(t, IsLoopback(&net.UnixAddr{}))
}
