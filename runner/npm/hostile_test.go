package npm

import (
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/npmtest"
)

// install installs the package bad, and returns the folder and the error, which is an [*Error].
func install(t *testing.T, c *Client) (folder string, failure *Error) {
	t.Helper()
	folder = filepath.Join(t.TempDir(), "in", "it")
	require.NoError(t, os.MkdirAll(folder, 0o700))
	files, err := c.Files(t.Context(), "bad", "1.0.0")
	if err == nil {
		err = os.CopyFS(folder, files)
	}
	if err == nil {
		return folder, nil
	}
	failure, ok := errors.AsType[*Error](err)
	require.True(t, ok, "%T: %v", err, err)
	require.NotContains(t, failure.Error(), "\n")
	return folder, failure
}

// requireNothingElse asserts that nothing is outside of the folder that is installed into.
func requireNothingElse(t *testing.T, folder string) {
	t.Helper()
	for at := folder; filepath.Base(at) != "001" && at != "/"; at = filepath.Dir(at) {
		entries, err := os.ReadDir(filepath.Dir(at))
		require.NoError(t, err)
		if strings.HasPrefix(filepath.Base(filepath.Dir(at)), "Test") {
			return
		}
		require.Len(t, entries, 1, filepath.Dir(at))
	}
}

func TestARegistryThatLies(t *testing.T) {
	const sound = `{"name":"bad","version":"1.0.0"}`
	archive := func(files ...string) func(*testing.T, *npmtest.Registry) {
		return func(t *testing.T, r *npmtest.Registry) {
			r.PublishArchive(t, "bad", "1.0.0", "", npmtest.Archive(t, append([]string{"package/package.json", sound}, files...)...))
		}
	}
	manifest := func(text string) func(*testing.T, *npmtest.Registry) {
		return func(t *testing.T, r *npmtest.Registry) { r.Publish(t, "bad", "1.0.0", text) }
	}
	document := func(write func(w io.Writer)) func(*testing.T, *npmtest.Registry) {
		return func(t *testing.T, r *npmtest.Registry) {
			r.Instead(func(w http.ResponseWriter, _ *http.Request) bool {
				write(w)
				return true
			})
		}
	}
	endless := func(w io.Writer, text string) {
		chunk := []byte(strings.Repeat(text, 1<<16/len(text)))
		for {
			if _, err := w.Write(chunk); err != nil {
				return
			}
		}
	}
	const elsewhere = "its archive has a file with a path that leads elsewhere, or is none: "
	tests := []struct {
		name string
		lie  func(t *testing.T, r *npmtest.Registry)
		kind Kind
		want string // in the reason; empty if it is installed
	}{
		{"another sum", manifest(`{"dist":{"integrity":"` + npmtest.Integrity(nil) + `"}}`), Untrusted, errSum.Error()},
		{"no sum", manifest(`{"dist":{"integrity":""}}`), Untrusted, errNoSum.Error()},
		{"a weak sum", manifest(`{"dist":{"integrity":"sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk="}}`), Untrusted, errNoSum.Error()},
		{"a path up", archive("package/../../up", "x"), Untrusted, elsewhere + "package/../../up"},
		{"a path up behind a folder", archive("package/a/../../../up", "x"), Untrusted, elsewhere},
		{"a path from the root", archive("/etc/up", "x"), 0, ""},
		{"a path with a backslash", archive(`package/..\up`, "x"), Untrusted, elsewhere},
		{"a path that is long", archive("package/"+strings.Repeat("a", 300), "x"), Untrusted, elsewhere},
		{"no path below the package", archive("up", "x"), Untrusted, elsewhere},
		{"links", archive("package/l", "->/etc", "package/h", "=>/etc/passwd"), 0, ""},
		{"a file in a link", archive("package/l", "->/etc", "package/l/up", "x"), 0, ""},
		{"no archive", func(t *testing.T, r *npmtest.Registry) {
			r.PublishArchive(t, "bad", "1.0.0", "", []byte("no archive"))
		}, Untrusted, "its archive cannot be unpacked: gzip: invalid header"},
		{"an archive that is cut short", func(t *testing.T, r *npmtest.Registry) {
			r.PublishArchive(t, "bad", "1.0.0", "", npmtest.Archive(t, "package/a", strings.Repeat("abc", 1000))[:40])
		}, Untrusted, "its archive cannot be unpacked: unexpected EOF"},
		{"another name in the document", manifest(`{"name":"other"}`), Untrusted, "the registry gives it out as other@1.0.0"},
		{"a name that is a path", manifest(`{"dependencies":{"../../up":"1"}}`), Unsupported, "this is not the name of an npm package"},
		{"an alias that is a path", manifest(`{"dependencies":{"a":"npm:../../up@1"}}`), Unsupported, "this is not the name of an npm package"},
		{"a folder of this machine", manifest(`{"dependencies":{"a":"file:/etc"}}`), Unsupported, "it does not come from a registry"},
		{"a repository", manifest(`{"dependencies":{"a":"git+ssh://git@127.0.0.1/a.git"}}`), Unsupported, "it does not come from a registry"},
		{"an archive on another port of this machine", manifest(`{"dist":{"tarball":"http://127.0.0.1:1/a.tgz"}}`), Untrusted, "must be at a public address"},
		{"an archive at a name of this machine", manifest(`{"dist":{"tarball":"http://localhost:1/a.tgz"}}`), Untrusted, "must be at a public address"},
		{"an archive in a network of one's own", manifest(`{"dist":{"tarball":"http://10.0.0.1/a.tgz"}}`), Untrusted, "must be at a public address"},
		{"the metadata of a cloud", manifest(`{"dist":{"tarball":"http://169.254.169.254/a.tgz"}}`), Untrusted, "must be at a public address"},
		{"the metadata of a cloud at what looks public", manifest(`{"dist":{"tarball":"http://168.63.129.16/a.tgz"}}`), Untrusted, "must be at a public address"},
		{"an address of the same in six", manifest(`{"dist":{"tarball":"http://[::ffff:7f00:1]:1/a.tgz"}}`), Untrusted, "must be at a public address"},
		{"a file", manifest(`{"dist":{"tarball":"file:///etc/passwd"}}`), Untrusted, "names an address that is not of the web"},
		{"a password in an address", manifest(`{"dist":{"tarball":"http://a:b@registry.example/a.tgz"}}`), Untrusted, "names an address with a password in it"},
		{"a redirect to this machine", func(t *testing.T, r *npmtest.Registry) {
			r.Publish(t, "bad", "1.0.0", "")
			r.Instead(func(w http.ResponseWriter, q *http.Request) bool {
				if !strings.HasSuffix(q.URL.Path, ".tgz") {
					return false
				}
				http.Redirect(w, q, "http://127.0.0.1:1/", http.StatusFound)
				return true
			})
		}, Untrusted, "must be at a public address"},
		{"a redirect without an end", func(_ *testing.T, r *npmtest.Registry) {
			r.Instead(func(w http.ResponseWriter, q *http.Request) bool {
				http.Redirect(w, q, q.URL.Path+"x", http.StatusFound)
				return true
			})
		}, Untrusted, "redirects more than 5 times"},
		{"a document that is none", document(func(w io.Writer) { _, _ = io.WriteString(w, "<html>") }), Untrusted, "makes no sense"},
		{"a document of 1 GB", func(_ *testing.T, r *npmtest.Registry) {
			r.Instead(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Length", "1073741824")
				_, _ = io.WriteString(w, "{")
				return true
			})
		}, Untrusted, "the registry's answer is over 64 MB"},
		{"a document without an end", document(func(w io.Writer) { endless(w, " ") }), Untrusted, "the registry's answer is over 64 MB"},
		{"a document that is small when it is packed", func(_ *testing.T, r *npmtest.Registry) {
			var packed bytes.Buffer
			z := gzip.NewWriter(&packed)
			_, _ = z.Write(bytes.Repeat([]byte(" "), mostMetadata+1))
			_ = z.Close()
			r.Instead(func(w http.ResponseWriter, _ *http.Request) bool {
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write(packed.Bytes())
				return true
			})
		}, Untrusted, "the registry's answer is over 64 MB"},
		{"an archive of 10 GB", func(t *testing.T, r *npmtest.Registry) {
			r.Publish(t, "bad", "1.0.0", "")
			r.Instead(func(w http.ResponseWriter, q *http.Request) bool {
				if !strings.HasSuffix(q.URL.Path, ".tgz") {
					return false
				}
				w.Header().Set("Content-Length", "10737418240")
				_, _ = io.WriteString(w, "x")
				return true
			})
		}, Untrusted, "the registry's answer is over 256 MB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if testing.Short() && strings.HasPrefix(tt.want, "the registry's answer is over") {
				t.Skip("what is much takes long with the race detector")
			}
			r := npmtest.Serve(t)
			tt.lie(t, r)
			folder, err := install(t, client(t, r, Config{}))
			requireNothingElse(t, folder)
			if tt.want == "" {
				require.Nil(t, err)
				return
			}
			require.NotNil(t, err)
			require.Contains(t, err.Error(), tt.want)
			require.Equal(t, tt.kind, err.Kind, err.Error())
		})
	}
}

// An archive can be small and what is in it large.
func TestABomb(t *testing.T) {
	const most = 8 << 20
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	_, err := z.Write(headerOf(t, 100*most))
	require.NoError(t, err)
	zeros := make([]byte, 1<<20)
	for range most>>20 + 1 {
		_, err := z.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, z.Close())
	var kept int64
	err = unpack(out.Bytes(), most, func(_ string, _ int64, content io.Reader) error {
		n, err := io.Copy(io.Discard, content)
		kept += n
		return err
	})
	require.ErrorContains(t, err, "its archive unpacks to over 8 MB")
	require.LessOrEqual(t, kept, int64(most))
}

// Guards against a worker whose memory is full: what Files unpack stays there.
func TestABombInMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("what is much takes long with the race detector")
	}
	r := npmtest.Serve(t)
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestSpeed)
	_, err := z.Write(headerOf(t, mostUnpacked+1))
	require.NoError(t, err)
	require.NoError(t, z.Close())
	r.PublishArchive(t, "bad", "1.0.0", "", out.Bytes())
	_, failure := install(t, client(t, r, Config{}))
	require.NotNil(t, failure)
	require.Contains(t, failure.Error(), "all packages are over 512 MB")
}

// headerOf is the head of an archive with one large file.
func headerOf(t *testing.T, size int) []byte {
	t.Helper()
	raw, err := gunzip(npmtest.Archive(t, "package/large", "x"))
	require.NoError(t, err)
	head := raw[:512]
	copy(head[124:136], fmt.Sprintf("%011o\x00", size))
	copy(head[148:156], "        ")
	sum := 0
	for _, b := range head {
		sum += int(b)
	}
	copy(head[148:156], fmt.Sprintf("%06o\x00 ", sum))
	return head
}

func gunzip(raw []byte) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return nil, err
	}
	return io.ReadAll(z)
}

// A registry asked over TLS must not send to where all can read and write along.
func TestNoWayFromTLSToPlainText(t *testing.T) {
	c := &Client{}
	home := mustParse(t, "https://registry.example/")
	err := c.mayAsk(mustParse(t, "http://registry.example/a.tgz"), home)
	require.EqualError(t, err, "registry.example is asked over TLS, and sends to registry.example without")
	require.NoError(t, c.mayAsk(mustParse(t, "https://other.example/a.tgz"), home))
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	require.NoError(t, err)
	return u
}

func TestCirclesEnd(t *testing.T) {
	r := npmtest.Serve(t)
	r.Publish(t, "bad", "1.0.0", `{"dependencies":{"a":"1"},"peerDependencies":{"b":"1"}}`)
	r.Publish(t, "a", "1.0.0", `{"dependencies":{"b":"1"},"peerDependencies":{"bad":"1"}}`)
	r.Publish(t, "b", "1.0.0", `{"dependencies":{"bad":"1","a":"1"},"peerDependencies":{"b":"1"}}`)
	_, err := install(t, client(t, r, Config{}))
	require.Nil(t, err)

	// Each version of one wants another one of the other.
	for _, v := range []string{"1.0.0", "2.0.0"} {
		other := map[string]string{"1.0.0": "2.0.0", "2.0.0": "1.0.0"}[v]
		r.Publish(t, "x", v, `{"dependencies":{"y":"`+v+`"}}`)
		r.Publish(t, "y", v, `{"dependencies":{"x":"`+other+`"}}`)
	}
	r.Publish(t, "bad", "1.0.0", `{"dependencies":{"x":"1.0.0"}}`)
	_, err = install(t, client(t, r, Config{}))
	require.NotNil(t, err)
	require.Equal(t, Unsupported, err.Kind)
	require.Contains(t, err.Reason, "it needs itself below itself")
}

func TestAHundredThousandVersions(t *testing.T) {
	versions := map[string]json.RawMessage{}
	many := 100_000
	if testing.Short() {
		many = 5_000
	}
	for i := range many {
		v := fmt.Sprintf("1.%d.%d", i/300, i%300)
		versions[v] = json.RawMessage(`{"name":"many","version":"` + v + `"}`)
	}
	raw, err := json.Marshal(map[string]any{"dist-tags": map[string]string{"latest": "1.0.0"}, "versions": versions})
	require.NoError(t, err)
	began := time.Now()
	p, err := readPackument(raw, "many", "registry.example")
	require.NoError(t, err)
	for _, wanted := range []string{"^1.2.0", "~1.10.0", "1.x <1.8"} {
		s, err := parseSpec("many", wanted)
		require.NoError(t, err)
		m, err := p.pick(s, choice{tag: "latest"})
		require.NoError(t, err)
		require.True(t, s.matches(m.Version), m.Version)
	}
	require.Less(t, time.Since(began), 30*time.Second)
}

// A token goes to the registry that it was set for, and to nobody whom that names.
func TestTokensStayAtHome(t *testing.T) {
	home, other := npmtest.Serve(t), npmtest.Serve(t)
	archive := npmtest.Archive(t, "package/package.json", `{"name":"@own/bad","version":"1.0.0"}`)
	other.PublishArchive(t, "@own/bad", "1.0.0", "", archive)
	home.PublishArchive(t, "@own/bad", "1.0.0", "", archive)
	home.Instead(func(w http.ResponseWriter, q *http.Request) bool {
		if !strings.HasSuffix(q.URL.Path, ".tgz") {
			return false
		}
		http.Redirect(w, q, other.URL+q.URL.Path, http.StatusFound)
		return true
	})
	host := strings.TrimPrefix(home.URL, "http:")
	// The other one is a registry of the settings too, or it would not be asked at all.
	c := client(t, other, Config{}, "@own:registry="+home.URL, host+"/:_authToken=secret")
	_, err := c.Files(t.Context(), "@own/bad", "1.0.0")
	require.NoError(t, err)
	require.Len(t, home.Asked(), 2)
	for _, q := range home.Asked() {
		require.Equal(t, "Bearer secret", q.Header.Get("Authorization"))
	}
	require.Len(t, other.Asked(), 1)
	require.Empty(t, other.Asked()[0].Header.Get("Authorization"))
}

// A registry that is ill for a moment is asked again; one that stays so is told of.
func TestFailuresThatPass(t *testing.T) {
	r := npmtest.Serve(t)
	r.Publish(t, "bad", "1.0.0", "")
	failures := 2
	r.Instead(func(w http.ResponseWriter, q *http.Request) bool {
		if failures--; failures >= 0 {
			w.WriteHeader(http.StatusBadGateway)
		}
		return failures >= 0
	})
	c := client(t, r, Config{}, "maxsockets=1")
	_, err := install(t, c)
	require.Nil(t, err)
	require.Len(t, r.Asked(), 4)

	r.Forget()
	r.Fail(http.StatusBadGateway)
	_, err = install(t, client(t, r, Config{}))
	require.Equal(t, Unreachable, err.Kind)
	require.Contains(t, err.Error(), " is ill: ")
	require.Len(t, r.Asked(), 3)
}

// A registry that stops in the middle is given up.
func TestARegistryThatFallsSilent(t *testing.T) {
	r := npmtest.Serve(t)
	r.Instead(func(w http.ResponseWriter, q *http.Request) bool {
		_, _ = io.WriteString(w, "{")
		_ = http.NewResponseController(w).Flush()
		<-q.Context().Done()
		return true
	})
	_, err := install(t, client(t, r, Config{}, "fetch-timeout=50", "fetch-retries=0"))
	require.Equal(t, Unreachable, err.Kind)
	require.Contains(t, err.Error(), errStalled.Error())
}

// What was fetched once needs no network.
func TestOffline(t *testing.T) {
	r := npmtest.Serve(t)
	r.Publish(t, "bad", "1.0.0", `{"dependencies":{"needed":"^1"}}`, "package/index.js", "1")
	r.Publish(t, "needed", "1.2.0", "")
	cache := t.TempDir()
	_, err := install(t, client(t, r, Config{Cache: cache}))
	require.Nil(t, err)
	for _, entry := range []string{"", archives, metadata} {
		info, err := os.Stat(filepath.Join(cache, entry))
		require.NoError(t, err)
		if entry != "" {
			require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
		}
	}
	r.Forget()
	for _, setting := range []string{"offline=true", "prefer-offline=true"} {
		_, err = install(t, client(t, r, Config{Cache: cache}, setting))
		require.Nil(t, err)
	}
	require.Empty(t, r.Asked())
	_, err = install(t, client(t, r, Config{}, "offline=true"))
	require.Equal(t, Offline, err.Kind)
	require.Empty(t, r.Asked())
}

func TestTheCacheIsBounded(t *testing.T) {
	r := npmtest.Serve(t)
	r.Publish(t, "bad", "1.0.0", "", "package/a", strings.Repeat("a", 100))
	cache := t.TempDir()
	c := client(t, r, Config{Cache: cache, CacheLimit: 1})
	_, failure := install(t, c)
	require.Nil(t, failure)
	old := filepath.Join(cache, begun, "old")
	require.NoError(t, os.WriteFile(old, nil, 0o600))
	require.NoError(t, os.Chtimes(old, time.Time{}, time.Now().Add(-2*staleAfter)))
	c.Close()
	for _, folder := range []string{archives, metadata, begun} {
		entries, err := os.ReadDir(filepath.Join(cache, folder))
		require.NoError(t, err)
		require.Empty(t, entries)
	}
}

func TestFilesWithoutADisk(t *testing.T) {
	r := npmtest.Serve(t)
	r.Publish(t, "bad", "1.0.0", `{"dependencies":{"@a/b":"2","c":"1"}}`, "package/lib/index.js", "one", "package/lib/index.js", "two", "package/index.d.ts", "types")
	r.Publish(t, "@a/b", "2.0.0", `{"dependencies":{"c":"2"}}`, "package/b.js", "b")
	r.Publish(t, "c", "1.0.0", "", "package/c.js", "c1")
	r.Publish(t, "c", "2.0.0", "", "package/c.js", "c2")
	c := client(t, r, Config{})
	files, err := c.Files(t.Context(), "bad", "1.0.0")
	require.NoError(t, err)
	expected := map[string]string{
		"node_modules/bad/lib/index.js": "two", "node_modules/@a/b/b.js": "b",
		"node_modules/c/c.js": "c1", "node_modules/@a/b/node_modules/c/c.js": "c2",
	}
	var names []string
	for name, want := range expected {
		names = append(names, name)
		raw, err := files.ReadFile(name)
		require.NoError(t, err)
		require.Equal(t, want, string(raw))
	}
	require.NoError(t, fstest.TestFS(files, names...))
	_, err = files.ReadFile("node_modules/bad/index.d.ts")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

// Guards against files that cannot be found since a package brings others in its archive where the tree has its own: these count,
// as they do on a disk.
func TestAPackageThatBringsWhatTheTreeHas(t *testing.T) {
	r := npmtest.Serve(t)
	r.Publish(t, "bad", "1.0.0", `{"dependencies":{"c":"1"}}`, "package/node_modules/c/c.js", "brought", "package/node_modules/c/old.js", "brought")
	r.Publish(t, "c", "1.0.0", "", "package/c.js", "placed")
	c := client(t, r, Config{})
	tree, err := c.Resolve(t.Context(), "bad", "1.0.0")
	require.NoError(t, err)
	for i, p := range tree.Packages {
		if p.Name == "c" {
			tree.Packages[i].Path = "node_modules/bad/node_modules/c"
		}
	}
	files, err := c.files(t.Context(), tree)
	require.NoError(t, err)
	raw, err := files.ReadFile("node_modules/bad/node_modules/c/c.js")
	require.NoError(t, err)
	require.Equal(t, "placed", string(raw))
	_, err = files.ReadFile("node_modules/bad/node_modules/c/old.js")
	require.ErrorIs(t, err, fs.ErrNotExist)
}

func TestSums(t *testing.T) {
	want := sum(sha512.Sum512([]byte("a")))
	for _, text := range []string{want.String(), "sha1-2jmj7l5rSw0yVb/vlWAYkK/YBwk= " + want.String() + "?x"} {
		got, ok := parseSum(text)
		require.True(t, ok)
		require.Equal(t, want, got)
	}
	for _, text := range []string{"", "sha512-", "sha512-AAAA", "sha256-ypeBEsobvcr6wjGzmiPcTaeG7/gUfE5yuYB3ha/uSLs=", "sha512-!"} {
		_, ok := parseSum(text)
		require.False(t, ok, text)
	}
}
