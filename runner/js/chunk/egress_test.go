package chunk

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEgress(t *testing.T) {
	tests := []struct {
		list    string
		address string
		refused bool
	}{
		{"", "93.184.216.34:443", false},
		{"", "10.1.2.3:80", false},
		{"", "127.0.0.1:80", true},
		{"", "127.8.9.1:80", true},
		{"", "[::1]:80", true},
		{"", "[::ffff:127.0.0.1]:80", true},
		{"", "0.0.0.0:80", true},
		{"", "169.254.169.254:80", true},
		{"", "[fe80::1%eth0]:80", true},
		{"", "[fd00:ec2::254]:80", true},
		{"any", "127.0.0.1:80", false},
		{"any -127.0.0.1", "127.0.0.1:80", true},
		{"127.0.0.1", "127.0.0.1:80", false},
		{"127.0.0.1", "127.0.0.2:80", true},
		{"-10.0.0.0/8", "10.1.2.3:80", true},
		{"10.1.0.0/16 -10.0.0.0/8", "10.1.2.3:80", true},
		{"", "no address", true},
	}
	for _, tt := range tests {
		t.Run(tt.list+" "+tt.address, func(t *testing.T) {
			egress, err := ParseEgress(strings.Fields(tt.list))
			require.NoError(t, err)
			require.Equal(t, tt.refused, egress.Control("tcp", tt.address, nil) != nil)
		})
	}
	_, err := ParseEgress([]string{"example.org"})
	require.EqualError(t, err, `"example.org" is neither any, nor an address, nor a network such as 10.0.0.0/8`)
}

// Guards against a name that leads to this machine, and against a server that sends a job there.
func TestARefusedAddressIsNeverReached(t *testing.T) {
	asked := 0
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked++ }))
	t.Cleanup(server.Close)
	client := &Client{MostBytes: 1 << 10, Control: Egress{}.Control}
	defer client.Close()
	for _, url := range []string{server.URL, strings.Replace(server.URL, "127.0.0.1", "localhost", 1)} {
		answer := client.Do(t.Context(), Exchange{Method: "GET", URL: url})
		text, err := json.Marshal(answer.Error)
		require.NoError(t, err)
		require.Contains(t, string(text), "jobs may not connect to")
		require.Equal(t, "EACCES", answer.Error["code"])
	}
	require.Zero(t, asked)
}

// Guards against a response that fills the memory of the worker, however small it is on the wire.
func TestAResponseIsBounded(t *testing.T) {
	server := newServer(t)
	client := &Client{MostBytes: 8}
	defer client.Close()
	for _, path := range []string{"/text", "/encoded/gzip"} {
		answer := client.Do(t.Context(), Exchange{Method: "GET", URL: server.URL + path, Decompress: true})
		require.Equal(t, "the body of the response is larger than a run may read", answer.Error["message"])
	}
}
