// Package npmtest is a registry of npm packages for tests, on this machine.
package npmtest

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// A Registry serves what was published, and remembers what it was asked. Its methods may be
// called at any time.
type Registry struct {
	*httptest.Server

	mu        sync.Mutex
	documents map[string]map[string]any // by name
	archives  map[string][]byte         // by path
	asked     []*http.Request
	instead   func(w http.ResponseWriter, r *http.Request) bool
}

// Serve starts a registry, which ends with the test.
func Serve(t testing.TB) *Registry {
	t.Helper()
	r := &Registry{documents: map[string]map[string]any{}, archives: map[string][]byte{}}
	r.Server = httptest.NewServer(http.HandlerFunc(r.answer))
	t.Cleanup(r.Close)
	return r
}

// Use has npm's settings in the environment lead to the registry, with a cache that is empty.
func (r *Registry) Use(t testing.TB) {
	t.Helper()
	t.Setenv("HOME", t.TempDir())
	t.Setenv("npm_config_registry", r.URL)
	t.Setenv("npm_config_cache", t.TempDir())
	t.Setenv("npm_config_fetch_retry_mintimeout", "1")
	t.Setenv("npm_config_fetch_retry_maxtimeout", "1")
}

// Instead has answer asked first: what it reports to have answered, it has. It runs on goroutines of
// the server, and may wait there. Nil is as before.
func (r *Registry) Instead(answer func(w http.ResponseWriter, q *http.Request) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.instead = answer
}

// Fail has the registry answer with a status; 0 is as before.
func (r *Registry) Fail(status int) {
	r.Instead(func(w http.ResponseWriter, _ *http.Request) bool {
		if status != 0 {
			w.WriteHeader(status)
		}
		return status != 0
	})
}

func (r *Registry) answer(w http.ResponseWriter, q *http.Request) {
	r.mu.Lock()
	r.asked = append(r.asked, q)
	instead, archive := r.instead, r.archives[q.URL.Path]
	var document []byte
	if d := r.documents[strings.TrimPrefix(q.URL.Path, "/")]; d != nil {
		document, _ = json.Marshal(d)
	}
	r.mu.Unlock()
	switch {
	case instead != nil && instead(w, q):
	case archive != nil:
		_, _ = w.Write(archive)
	case document != nil:
		of := sha512.Sum512(document)
		tag := `"` + hex.EncodeToString(of[:8]) + `"`
		w.Header().Set("ETag", tag)
		if q.Header.Get("If-None-Match") == tag {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = w.Write(document)
	default:
		http.NotFound(w, q)
	}
}

// Asked are the requests since the last Forget.
func (r *Registry) Asked() []*http.Request {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.asked)
}

// Paths are those of the requests, sorted.
func (r *Registry) Paths() (paths []string) {
	for _, q := range r.Asked() {
		paths = append(paths, q.URL.Path)
	}
	slices.Sort(paths)
	return paths
}

// Count tells how often a path was asked for.
func (r *Registry) Count(path string) (n int) {
	for _, p := range r.Paths() {
		if p == path {
			n++
		}
	}
	return n
}

// Forget forgets all requests.
func (r *Registry) Forget() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked = nil
}

// ArchivePath is where the archive of a version is.
func ArchivePath(name, version string) string { return "/" + name + "/-/" + version + ".tgz" }

// Publish publishes a version, which is the latest from then on. The manifest is JSON; it
// need not have name and version. The archive has files beside package.json, by path and content in turn.
func (r *Registry) Publish(t testing.TB, name, version, manifest string, files ...string) {
	t.Helper()
	m := map[string]any{}
	if manifest != "" {
		require.NoError(t, json.Unmarshal([]byte(manifest), &m))
	}
	m["name"], m["version"] = name, version
	text, err := json.Marshal(m)
	require.NoError(t, err)
	r.PublishArchive(t, name, version, manifest, Archive(t, append([]string{"package/package.json", string(text)}, files...)...))
}

// PublishArchive publishes a version with an archive.
func (r *Registry) PublishArchive(t testing.TB, name, version, manifest string, archive []byte) {
	t.Helper()
	m := map[string]any{"name": name, "version": version}
	if manifest != "" {
		require.NoError(t, json.Unmarshal([]byte(manifest), &m))
	}
	path := ArchivePath(name, version)
	dist := map[string]any{"tarball": r.URL + path, "integrity": Integrity(archive)}
	if own, ok := m["dist"].(map[string]any); ok {
		maps.Copy(dist, own)
	}
	m["dist"] = dist
	r.mu.Lock()
	defer r.mu.Unlock()
	r.archives[path] = archive
	document := r.documents[name]
	if document == nil {
		document = map[string]any{"name": name, "dist-tags": map[string]any{}, "versions": map[string]any{}}
		r.documents[name] = document
	}
	document["dist-tags"].(map[string]any)["latest"] = version //nolint:forcetypeassert // made above
	document["versions"].(map[string]any)[version] = m         //nolint:forcetypeassert // made above
}

// Set sets a member of the document of a package.
func (r *Registry) Set(name, member string, value any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.documents[name][member] = value
}

// Has reports whether any version of a package was published.
func (r *Registry) Has(name string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.documents[name] != nil
}

// Integrity is npm's sum of an archive.
func Integrity(archive []byte) string {
	of := sha512.Sum512(archive)
	return "sha512-" + base64.StdEncoding.EncodeToString(of[:])
}

// Archive makes an archive of files, by path and content in turn. A content that begins with -> makes
// a link to the rest of it, and one with => a hard link.
func Archive(t testing.TB, files ...string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	all := tar.NewWriter(zipped)
	for i := 0; i < len(files); i += 2 {
		content := files[i+1]
		header := tar.Header{Name: files[i], Mode: 0o644, Typeflag: tar.TypeReg}
		for mark, kind := range map[string]byte{"->": tar.TypeSymlink, "=>": tar.TypeLink} {
			if to, ok := strings.CutPrefix(content, mark); ok {
				header.Typeflag, header.Linkname, content = kind, to, ""
			}
		}
		header.Size = int64(len(content))
		require.NoError(t, all.WriteHeader(&header))
		_, err := all.Write([]byte(content))
		require.NoError(t, err)
	}
	require.NoError(t, all.Close())
	require.NoError(t, zipped.Close())
	return out.Bytes()
}
