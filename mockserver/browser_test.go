package mockserver_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
)

// Guards against a page that is open in a developer's browser: it queued runs, whose
// code the worker beside the server executed, and had the server fail.
func TestNoWebPageUsesTheServer(t *testing.T) {
	server := mockserver.NewTest(t, mocktest.Config(mockserver.Config{}))
	_, port, _ := strings.Cut(strings.TrimPrefix(server.HTTPURL(), "http://"), ":")
	tests := []struct {
		name, host, header, value string
		want                      int // to POST /run; a page of another origin can read nothing in any case
	}{
		{name: "a program", want: 201},
		{name: "a program, by the name localhost", host: "localhost:" + port, want: 201},
		{name: "a program, by a container's name", host: "lightning:" + port, want: 201},
		{name: "a page that the server has sent", header: "Sec-Fetch-Site", value: "same-origin", want: 201},
		{name: "a page elsewhere", header: "Origin", value: "https://a.example", want: 403},
		{name: "a page elsewhere, as browsers tell it", header: "Sec-Fetch-Site", value: "cross-site", want: 403},
		{name: "a page of another port", header: "Origin", value: "http://127.0.0.1:3000", want: 403},
		{name: "a page that has its name lead here", host: "rebound.example:" + port, want: 403},
		{name: "the same, with a name like an address", host: "127.0.0.1.example", want: 403},
	}
	transport := &http.Transport{DisableKeepAlives: true}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ask := func(method, path, body string) int {
				request, err := http.NewRequestWithContext(t.Context(), method, server.HTTPURL()+path, strings.NewReader(body))
				require.NoError(t, err)
				if tt.host != "" {
					request.Host = tt.host
				}
				if tt.header != "" {
					request.Header.Set(tt.header, tt.value)
				}
				response, err := transport.RoundTrip(request)
				require.NoError(t, err)
				require.NoError(t, response.Body.Close())
				require.Empty(t, response.Header.Get("Access-Control-Allow-Origin"))
				return response.StatusCode
			}
			before := server.Stats().Available
			require.Equal(t, tt.want, ask("POST", "/run", `{"jobs":[]}`))
			require.Equal(t, before+map[int]int{201: 1, 403: 0}[tt.want], server.Stats().Available)
			require.Equal(t, tt.want, ask("POST", "/faults", `{"event":"claim","action":"withhold"}`))
			if tt.want == 403 {
				require.Equal(t, 403, ask("DELETE", "/faults", ""))
				require.Equal(t, 403, ask("POST", "/drain", ""))
			}
			if tt.host != "" {
				require.Equal(t, map[int]int{201: 200, 403: 403}[tt.want], ask("GET", "/stats", ""))
			}
		})
	}
}
