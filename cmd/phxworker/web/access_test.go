package web

import (
	"net/http"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
)

func TestWhoMayControl(t *testing.T) {
	controls := [][2]string{{"POST", "/pause"}, {"POST", "/resume"}, {"PUT", "/groups/none"}, {"POST", "/runs/none/cancel"}, {"POST", "/runs/none/notify"}, {"POST", "/claim"}, {"POST", "/drain"}}
	none := func(*http.Request) {}
	tests := []struct {
		name   string
		token  string
		change func(*http.Request)
		want   int // 0: allowed
	}{
		{"no token is to be had", "", none, 403},
		{"no token is to be had, and one is sent", "", withToken("x"), 403},
		{"no token is to be had, and an empty one is sent", "", withToken(""), 403},
		{"no token", "t", none, 401},
		{"no token, and loopback is named", "t", host("localhost"), 401},
		{"wrong token", "t", withToken("T"), 401},
		{"part of the token", "token", withToken("tok"), 401},
		{"empty token", "t", withToken(""), 401},
		{"another scheme", "t", header("Authorization", "Basic t"), 401},
		{"right token", "t", withToken("t"), 0},
		{"right token, from a page elsewhere", "t", func(r *http.Request) { withToken("t")(r); r.Header.Set("Origin", "https://a.example") }, 0},
		{"right token, by another name", "t", func(r *http.Request) { withToken("t")(r); r.Host = "worker.example" }, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, phxworker.Config{}, Config{Token: tt.token, ControlsOff: "as the program says"})
				h.token = ""
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
						require.Contains(t, a.body, "as the program says")
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

func header(name, value string) func(*http.Request) {
	return func(r *http.Request) { r.Header.Set(name, value) }
}

// by is a request by a host's name, with headers and their values.
func by(name string, headers ...string) func(*http.Request) {
	return func(r *http.Request) {
		r.Host = name
		for pair := range slices.Chunk(headers, 2) {
			r.Header.Set(pair[0], pair[1])
		}
	}
}

// browser is a page's request to its own origin: over plain HTTP, a browser tells little.
func browser(name string) func(*http.Request) {
	return by(name, "User-Agent", "Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Accept", "*/*", "Accept-Language", "en-US,en;q=0.5")
}

func host(name string) func(*http.Request) { return func(r *http.Request) { r.Host = name } }

// Guards against a page in a browser beside the worker, or beside somebody who may
// reach it: it may not read, not by its own name either, and not have anything claimed.
func TestWhatAWebPageGets(t *testing.T) {
	tests := []struct {
		name        string
		change      func(*http.Request)
		read, claim int // what is answered
	}{
		{"a program", host("127.0.0.1:2222"), 200, 204},
		{"a program, by the name localhost", host("localhost:2222"), 200, 204},
		{"a program, by IPv6", host("[::1]:2222"), 200, 204},
		{"a program, by IPv6 without port", host("[::1]"), 200, 204},
		{"a program, by an address of the network", host("10.0.0.1:2222"), 200, 204},
		{"a program, by a service's name", host("phxworker:2222"), 200, 204},
		{"a program, by a service's whole name", host("phxworker.default.svc.cluster.local:2222"), 200, 204},
		{"a program, by what the worker was told to listen at", host("Worker-1.example.org:2222"), 200, 204},
		{"a program with the token, by any name", func(r *http.Request) { host("other.example.org")(r); withToken("t")(r) }, 200, 204},
		{"the worker's own page", header("Sec-Fetch-Site", "same-origin"), 200, 204},
		{"a program, by a service and its namespace", host("phxworker.openfn:2222"), 200, 204},
		{"a program, by a load balancer's name", by("workers.example.org", "User-Agent", "Go-http-client/1.1", "Accept-Encoding", "gzip"), 200, 204},
		{"curl", by("workers.example.org", "User-Agent", "curl/8.9.1", "Accept", "*/*"), 200, 204},
		{"Python", by("phxworker.openfn", "User-Agent", "python-requests/2.32", "Accept", "*/*", "Accept-Encoding", "gzip, deflate", "Connection", "keep-alive"), 200, 204},
		{"Node's fetch", by("phxworker.openfn", "User-Agent", "node", "Accept", "*/*", "Accept-Language", "*", "Sec-Fetch-Mode", "cors"), 200, 204},
		{"a browser, by an address", browser("10.0.0.1:2222"), 200, 204},
		{"a browser, by a service's name in its cluster", browser("phxworker.openfn.svc:2222"), 200, 204},
		{"a browser at home", browser("worker.lan"), 200, 204},
		{"a browser at home, by another name", browser("worker.home.arpa"), 200, 204},
		{"a browser, by a name that ends with a dot", browser("worker.lan.:2222"), 200, 204},
		{"a page that has its name lead here", browser("rebound.example:2222"), 403, 403},
		{"the same, and posts to its own origin", by("rebound.example", "Origin", "http://rebound.example"), 403, 403},
		{"the same, that posts from nowhere", by("rebound.example", "Origin", "null"), 403, 403},
		{"the same, in a browser that lets it choose its name", by("rebound.example", "User-Agent", "curl/8.9.1", "Accept-Language", "*"), 403, 403},
		{"the same, which wants to read no language", by("rebound.example", "User-Agent", "node", "Accept-Language", ""), 403, 403},
		{"the same, in a browser that reads none", by("rebound.example", "User-Agent", "Mozilla/5.0 (X11)"), 403, 403},
		{"the same, of an origin that can be trusted", by("rebound.example", "Sec-Fetch-Site", "same-origin", "Sec-Fetch-Mode", "cors"), 403, 403},
		{"the same without port", browser("rebound.example"), 403, 403},
		{"the same, with a name that begins well", browser("localhost.rebound.example:2222"), 403, 403},
		{"the same, with a name that ends nearly well", browser("phxworker.xlocal"), 403, 403},
		{"the same, with a name that looks like an address", browser("127.0.0.1.example:2222"), 403, 403},
		{"the same, with a wrong token", func(r *http.Request) { browser("rebound.example")(r); withToken("")(r) }, 403, 403},
		{"a page that posts", header("Origin", "https://a.example"), 200, 403},
		{"a page that posts, as browsers tell it", header("Sec-Fetch-Site", "cross-site"), 200, 403},
		{"a page that posts from another port of this machine", header("Origin", "http://127.0.0.1:3000"), 200, 403},
		{"a page that posts from nowhere", header("Origin", "null"), 200, 403},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := start(t, phxworker.Config{Claim: phxworker.Claim{Manual: true}}, Config{Token: "t", Host: "worker-1.example.org"})
				h.token = ""
				for _, path := range []string{"/status", "/"} {
					a := h.ask("GET", path, "", tt.change)
					require.Equal(t, tt.read, a.status, path)
					require.Empty(t, a.header.Get("Access-Control-Allow-Origin"), "what a page of another origin gets, it cannot read")
					if tt.read != 200 {
						require.NotContains(t, a.body, "manual", path)
					}
				}
				require.Equal(t, tt.claim, h.ask("POST", "/claim", "", tt.change).status)
				settle(time.Second)
				require.Equal(t, map[int]int{204: 1, 403: 0}[tt.claim], h.claims(), "what the server was asked for")
				require.Equal(t, 401, h.ask("POST", "/pause", "", host("127.0.0.1:2222")).status)
				require.Equal(t, 200, h.ask("GET", "/livez", "", tt.change).status)
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
		h := start(t, phxworker.Config{}, withControls)
		for _, tt := range tests {
			a := h.ask(tt.method, tt.path, "")
			require.Equal(t, tt.want, a.status, "%s %s", tt.method, tt.path)
			require.Equal(t, tt.allow, a.header.Get("Allow"), "%s %s", tt.method, tt.path)
			require.Equal(t, "nosniff", a.header.Get("X-Content-Type-Options"))
		}
		h.serve(New(h.worker, Config{Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte("phxworker_connected 1\n"))
		})}))
		require.Equal(t, "phxworker_connected 1\n", h.ask("GET", "/metrics", "").body)
	})
}
