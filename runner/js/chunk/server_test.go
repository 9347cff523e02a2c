package chunk

import (
	"bytes"
	"compress/gzip"
	"compress/zlib"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/andybalholm/brotli"
)

// server answers in all the ways that adaptors know, and notes what it was asked.
type server struct {
	*httptest.Server
	mu    sync.Mutex
	asked []string
}

func newServer(t *testing.T) *server {
	t.Helper()
	s := &server{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *server) take() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

var boundaries = regexp.MustCompile(`formdata-undici-\d+|-{26}[\da-f]{24}|axios-\d+\.\d+\.\d+-boundary-[\w-]+`)

func (s *server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	headers := map[string]any{}
	for name, values := range r.Header {
		headers[name] = values
	}
	told, _ := json.Marshal([]any{r.Method, r.RequestURI, headers, string(body), r.ContentLength})
	told = boundaries.ReplaceAll(told, []byte("boundary"))
	s.mu.Lock()
	s.asked = append(s.asked, string(told))
	s.mu.Unlock()
	w.Header()["Date"] = nil
	w.Header().Set("Content-Type", "application/json")
	switch path := r.URL.Path; {
	case len(path) > 8 && path[:8] == "/status/":
		status, _ := strconv.Atoi(path[8:])
		w.WriteHeader(status)
		if status != 204 {
			fmt.Fprintf(w, `{"status":%d}`, status)
		}
	case path == "/redirect/loop":
		w.Header().Set("Location", "/redirect/loop")
		w.WriteHeader(http.StatusFound)
	case len(path) > 10 && path[:10] == "/redirect/":
		status, _ := strconv.Atoi(path[10:])
		w.Header().Set("Location", "/echo")
		w.WriteHeader(status)
	case path == "/bad-json":
		_, _ = io.WriteString(w, "{")
	case path == "/text":
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "some text ä")
	case path == "/bytes":
		w.Header().Set("Content-Type", "application/octet-stream")
		_, _ = w.Write([]byte{0, 255, 128, 7})
	case path == "/cookies":
		w.Header().Add("Set-Cookie", "a=1")
		w.Header().Add("Set-Cookie", "b=2")
		_, _ = io.WriteString(w, "{}")
	case path == "/accents":
		for _, name := range []string{"Content-Disposition", "X-Name"} {
			w.Header().Set(name, "Jos\u00e9 \u65e5\u672c")
		}
		w.Header().Set("Location", "/echo/\u00e9")
		w.Header().Set("X-Latin", "Jos\xe9")
		if r.URL.RawQuery != "" {
			w.WriteHeader(http.StatusFound)
		}
	case strings.HasPrefix(path, "/pragma/"):
		w.Header().Set("Pragma", "no-cache")
		if said := path[len("/pragma/"):]; said != "none" {
			w.Header().Set("Cache-Control", said)
		}
	case strings.HasPrefix(path, "/malformed/"):
		conn, _, _ := w.(http.Hijacker).Hijack()
		_, _ = io.WriteString(conn, "HTTP/1.1 "+map[string]string{
			"length": "200 OK\r\nContent-Length: abc\r\n\r\n",
			"chunk":  "200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n", "status": "99999 OK\r\n\r\n",
		}[path[len("/malformed/"):]])
		_ = conn.Close()
	case path == "/hang-up":
		conn, _, _ := w.(http.Hijacker).Hijack()
		_ = conn.Close()
	case strings.HasPrefix(path, "/collections/"):
		answerCollection(w, r)
	case strings.HasPrefix(path, "/ws/"):
		answerRecords(w, r)
	case path == "/streamed":
		for i := range 3 {
			_, _ = fmt.Fprintf(w, "part %d\n", i)
			_ = http.NewResponseController(w).Flush()
		}
	case path == "/long":
		_, _ = io.WriteString(w, strings.Repeat("0123456789", 50_000))
	case path == "/cut":
		w.Header().Set("Content-Length", "100")
		_, _ = io.WriteString(w, "too short")
		_ = http.NewResponseController(w).Flush()
		conn, _, _ := w.(http.Hijacker).Hijack()
		_ = conn.Close()
	case path == "/stalled":
		_, _ = io.WriteString(w, "begun")
		_ = http.NewResponseController(w).Flush()
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
	case path == "/slow":
		select {
		case <-r.Context().Done():
		case <-time.After(5 * time.Second):
		}
	case len(path) > 9 && path[:9] == "/encoded/":
		var buf bytes.Buffer
		encoder := map[string]func() io.WriteCloser{
			"gzip": func() io.WriteCloser { return gzip.NewWriter(&buf) }, "deflate": func() io.WriteCloser { return zlib.NewWriter(&buf) },
			"br": func() io.WriteCloser { return brotli.NewWriter(&buf) },
		}[path[9:]]()
		_, _ = io.WriteString(encoder, `{"encoded":true}`)
		_ = encoder.Close()
		w.Header().Set("Content-Encoding", path[9:])
		_, _ = w.Write(buf.Bytes())
	default:
		text, _ := json.Marshal(map[string]any{"method": r.Method, "url": r.URL.String(), "body": boundaries.ReplaceAllString(string(body), "boundary")})
		_, _ = w.Write(text)
	}
}

// answerCollection answers as the server of OpenFn's collections does: two pages of a list, or one value.
func answerCollection(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/collections/"), "/")
	switch {
	case parts[0] == "none":
		w.WriteHeader(http.StatusNotFound)
	case parts[0] == "broken":
		w.WriteHeader(http.StatusInternalServerError)
		_, _ = io.WriteString(w, "the server is ill")
	case r.Method == http.MethodPost:
		_, _ = io.WriteString(w, `{"upserted":2,"errors":[]}`)
	case r.Method == http.MethodDelete:
		_, _ = io.WriteString(w, `{"deleted":1,"keys":["a"]}`)
	case len(parts) > 1 && parts[1] == "missing":
		w.WriteHeader(http.StatusNoContent)
	case len(parts) > 1:
		_, _ = io.WriteString(w, `{"key":"a","value":"{\"x\":1}"}`)
	case r.URL.Query().Get("cursor") == "":
		_, _ = io.WriteString(w, `{"cursor":"next","items":[{"key":"a","value":"{\"x\":1}"},{"key":"b","value":"[\"ä\"]"}]}`)
	default:
		_, _ = io.WriteString(w, `{"items":[{"key":"c","value":"3"}],"cursor":null}`)
	}
}

// answerRecords answers as OpenMRS does: two pages of a list, one record, or what is not there.
func answerRecords(w http.ResponseWriter, r *http.Request) {
	switch {
	case strings.HasSuffix(r.URL.Path, "/missing"):
		w.WriteHeader(http.StatusNotFound)
		_, _ = io.WriteString(w, `{"error":{"message":"not there","detail":"a long trace"}}`)
	case strings.HasSuffix(r.URL.Path, "/refused"):
		w.WriteHeader(http.StatusBadRequest)
		_, _ = io.WriteString(w, `{"error":{"message":"no"}}`)
	case r.Method != http.MethodGet:
		_, _ = io.WriteString(w, `{"uuid":"made"}`)
	case strings.Contains(r.URL.Path, "/fhir2/"):
		_, _ = fmt.Fprintf(w, `{"resourceType":"Bundle","entry":[{"resource":{"id":"%s"}}],"link":[]}`, r.URL.Query().Get("name"))
	case strings.Count(r.URL.Path, "/") > 4:
		_, _ = io.WriteString(w, `{"uuid":"one","name":"ä"}`)
	case r.URL.Query().Get("q") == "one":
		_, _ = io.WriteString(w, `{"results":[{"uuid":"only"}]}`)
	case r.URL.Query().Get("startIndex") == "":
		_, _ = io.WriteString(w, `{"results":[{"uuid":"1"},{"uuid":"2"}],"links":[{"rel":"next","uri":"x"}]}`)
	default:
		_, _ = io.WriteString(w, `{"results":[{"uuid":"3"}]}`)
	}
}
