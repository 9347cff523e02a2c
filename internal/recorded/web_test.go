package recorded

import (
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// webServer answers the jobs of the recordings as the server did that they talked
// to.
type webServer struct {
	addr   string
	closed string // an address where nothing listens
}

func newWebServer(t *testing.T) *webServer {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /json", reply(200, "application/json", `{"hello":"world","n":3,"list":[1,2,3]}`))
	mux.HandleFunc("GET /text", reply(200, "text/plain", "plain text body"))
	mux.HandleFunc("GET /html", reply(200, "text/html", "<html><body><h1>hi</h1></body></html>"))
	mux.HandleFunc("GET /badjson", reply(200, "application/json", `{"oops": `))
	mux.HandleFunc("GET /empty", reply(204, "", ""))
	mux.HandleFunc("GET /items", reply(200, "application/json", `[{"id":1,"name":"ada"},{"id":2,"name":"bob"},{"id":3,"name":"cyd"}]`))
	mux.HandleFunc("GET /items/{n}", func(w http.ResponseWriter, r *http.Request) {
		n, _ := strconv.Atoi(r.PathValue("n"))
		reply(200, "application/json", fmt.Sprintf(`{"id":%d,"double":%d}`, n, 2*n))(w, r)
	})
	mux.HandleFunc("/echo", echo)
	mux.HandleFunc("/status/{code}", func(w http.ResponseWriter, r *http.Request) {
		code, _ := strconv.Atoi(r.PathValue("code"))
		reply(code, "application/json", fmt.Sprintf(`{"status":%d,"error":"as requested"}`, code))(w, r)
	})
	mux.HandleFunc("GET /redirect", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", "/json")
		reply(302, "", "")(w, r)
	})
	mux.HandleFunc("/hangup", func(w http.ResponseWriter, _ *http.Request) {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
	})
	mux.HandleFunc("/auth", func(w http.ResponseWriter, r *http.Request) {
		if user, password, _ := r.BasicAuth(); user == "user" && password == "s3cret" {
			reply(200, "application/json", `{"ok":true}`)(w, r)
			return
		}
		reply(401, "application/json", `{"ok":false}`)(w, r)
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		reply(404, "application/json", fmt.Sprintf(`{"error":"no route","path":%q}`, r.URL.Path))(w, r)
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The adaptor logs no request that has taken 0 ms by its clock.
		time.Sleep(2 * time.Millisecond)
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)

	nobody, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer nobody.Close()
	return &webServer{addr: strings.TrimPrefix(server.URL, "http://"), closed: nobody.Addr().String()}
}

func reply(status int, contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		header := w.Header()
		header["Date"] = nil
		header.Set("Connection", "keep-alive") // which jobs may see, as from a server of Node's
		header.Set("Keep-Alive", "timeout=5")
		if contentType != "" {
			header.Set("Content-Type", contentType)
		}
		if status != http.StatusNoContent {
			header.Set("Content-Length", strconv.Itoa(len(body)))
		}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

// echo tells what it was asked.
func echo(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	header := func(name string) *string {
		if r.Header[name] == nil {
			return nil
		}
		value := r.Header.Get(name)
		return &value
	}
	query := make(map[string]string)
	for name, values := range r.URL.Query() {
		query[name] = values[len(values)-1]
	}
	answer, _ := json.Marshal(struct {
		Method        string            `json:"method"`
		Path          string            `json:"path"`
		Query         map[string]string `json:"query"`
		ContentType   *string           `json:"content_type"`
		Authorization *string           `json:"authorization"`
		XTest         *string           `json:"x_test"`
		Body          string            `json:"body"`
	}{r.Method, r.URL.Path, query, header("Content-Type"), header("Authorization"), header("X-Test"), string(body)})
	reply(200, "application/json", string(answer))(w, r)
}
