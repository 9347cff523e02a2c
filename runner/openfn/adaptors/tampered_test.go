package adaptors

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"maps"
	web "net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tarball makes the archive of a package. A text that begins with -> makes a link, and one
// with => a hard link.
func tarball(t *testing.T, files [][2]string) []byte {
	t.Helper()
	var out bytes.Buffer
	zipped := gzip.NewWriter(&out)
	archive := tar.NewWriter(zipped)
	for _, f := range files {
		header := &tar.Header{Name: f[0], Mode: 0o755, Size: int64(len(f[1])), Typeflag: tar.TypeReg}
		for mark, kind := range map[string]byte{"->": tar.TypeSymlink, "=>": tar.TypeLink} {
			if to, ok := strings.CutPrefix(f[1], mark); ok {
				header.Typeflag, header.Linkname, header.Size = kind, to, 0
			}
		}
		require.NoError(t, archive.WriteHeader(header))
		if header.Typeflag == tar.TypeReg {
			_, err := archive.Write([]byte(f[1]))
			require.NoError(t, err)
		}
	}
	require.NoError(t, archive.Close())
	require.NoError(t, zipped.Close())
	return out.Bytes()
}

// registry serves packages by name and version, as whoever has tampered with npm's would.
func registry(t *testing.T, packages map[string]map[string]any, archives map[string][]byte) {
	t.Helper()
	server := httptest.NewServer(nil)
	t.Cleanup(server.Close)
	server.Config.Handler = web.HandlerFunc(func(w web.ResponseWriter, r *web.Request) {
		name := strings.TrimPrefix(r.URL.Path, "/")
		if archive, ok := archives[strings.TrimSuffix(name, ".tgz")]; ok && strings.HasSuffix(name, ".tgz") {
			_, _ = w.Write(archive)
			return
		}
		manifest, ok := packages[name]
		if !ok {
			web.NotFound(w, r)
			return
		}
		sum := sha512.Sum512(archives[name])
		manifest["dist"] = map[string]string{
			"tarball":   server.URL + "/" + name + ".tgz",
			"integrity": "sha512-" + base64.StdEncoding.EncodeToString(sum[:]),
		}
		version := manifest["version"].(string)
		_ = json.NewEncoder(w).Encode(map[string]any{
			"name": name, "dist-tags": map[string]string{"latest": version}, "versions": map[string]any{version: manifest},
		})
	})
	t.Setenv("npm_config_registry", server.URL+"/")
	t.Setenv("npm_config_cache", t.TempDir())
}

// What a registry, or whoever publishes a package, can have npm do: no more than to put
// files into the package's folder.
func TestATamperedRegistryReachesNothingOutsideOfThePackage(t *testing.T) {
	base := shared(t)
	outside := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(outside, "package.json"), []byte(`{"name":"needed","version":"1.0.0"}`), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(outside, "index.js"), []byte(`exports.a = "hush"`), 0o600))
	ran := filepath.Join(outside, "ran")
	scripts := map[string]string{}
	for _, event := range []string{"preinstall", "install", "postinstall", "prepare", "prepublish"} {
		scripts[event] = "echo > " + ran
	}
	tests := []struct {
		name     string
		manifest map[string]any
		files    [][2]string
		want     string // why it is not installed
	}{
		{
			name:     "scripts, programs with odd paths, links, a file of the worker's",
			manifest: map[string]any{"scripts": scripts, "bin": map[string]string{"../../../../../escaped": "index.js", "node": "index.js", "x": "../../../../../../outside"}},
			files: [][2]string{
				{"package/l", "->" + outside},
				{"package/l/escaped", "x"},
				{"package/h", "=>" + outside + "/index.js"},
				{"/" + outside + "/escaped", "x"},
				{"package/index.js", `let kept; try { kept = require("` + outside + `/index.js") } catch {} exports.fn = () => kept`},
			},
		},
		{name: "a path with dots", files: [][2]string{{"package/../../../../escaped", "x"}}, want: "path contains '..'"},
		{name: "a folder as what it depends on", manifest: map[string]any{"dependencies": map[string]string{"needed": "file:" + outside}}, want: "node_modules/needed is a link that leads out of the package's folder"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			manifest := map[string]any{"name": "@openfn/language-evil", "version": "1.0.0", "main": "index.js"}
			maps.Copy(manifest, tt.manifest)
			text, err := json.Marshal(manifest)
			require.NoError(t, err)
			archive := tarball(t, append([][2]string{{"package/package.json", string(text)}, {"package/index.js", "exports.a = 1"}}, tt.files...))
			registry(t, map[string]map[string]any{"@openfn/language-evil": manifest}, map[string][]byte{"@openfn/language-evil": archive})
			r := open(t, Config{Dir: filepath.Join(t.TempDir(), "repo")})
			require.NoError(t, os.MkdirAll(r.Dir(), 0o700)) // with a bundler that nobody has touched
			require.NoError(t, os.CopyFS(r.folder(specifier{bundlerName, bundlerVersion}), os.DirFS(base.folder(specifier{bundlerName, bundlerVersion}))))

			p, err := r.Resolve(t.Context(), "@openfn/language-evil@1.0.0", nil)
			if tt.want != "" {
				require.ErrorContains(t, err, tt.want)
			} else {
				require.NoError(t, err)
				require.Equal(t, "@openfn/language-evil", p.Name)
			}
			require.NoFileExists(t, ran)
			requireEnclosed(t, r.Dir())
			require.Equal(t, []string{"index.js", "package.json"}, names(t, outside))
			require.Equal(t, []string{"repo"}, names(t, filepath.Dir(r.Dir())))
		})
	}
}

// requireEnclosed asserts that nothing below dir is from outside of it, nor leads there.
func requireEnclosed(t *testing.T, dir string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		require.NoError(t, err)
		switch {
		case entry.Type()&fs.ModeSymlink != 0:
			to, err := filepath.EvalSymlinks(path)
			if err == nil {
				require.True(t, strings.HasPrefix(to, dir), "%s leads to %s", path, to)
			}
		case entry.Name() == "bundle.js":
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			require.NotContains(t, string(text), "hush")
		}
		require.False(t, entry.Name() == "escaped" && !strings.Contains(path, "node_modules"), path)
		return nil
	}))
}
