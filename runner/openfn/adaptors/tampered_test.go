package adaptors

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/npmtest"
)

// What a registry, or whoever publishes a package, can have the installer do: no more than to put
// files into the package's folder.
func TestATamperedRegistryReachesNothingOutsideOfThePackage(t *testing.T) {
	needNode(t)
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
				{"package/k", "->" + outside},
				{"package/l", "->" + outside},
				{"package/l/escaped", "x"},
				{"package/h", "=>" + outside + "/index.js"},
				{"/" + outside + "/escaped", "x"},
				{"package/index.js", `let kept; try { kept = require("` + outside + `/index.js") } catch {} exports.fn = () => kept`},
			},
		},
		{name: "a path with dots", files: [][2]string{{"package/../../../../escaped", "x"}}, want: "its archive has a file with a path that leads elsewhere, or is none: package/../../../../escaped"},
		{name: "a folder as what it depends on", manifest: map[string]any{"dependencies": map[string]string{"needed": "file:" + outside}}, want: "it does not come from a registry, and nothing else is installed here"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			manifest := map[string]any{"name": "@openfn/language-evil", "version": "1.0.0", "main": "index.js"}
			maps.Copy(manifest, tt.manifest)
			text, err := json.Marshal(manifest)
			require.NoError(t, err)
			files := []string{"package/package.json", string(text), "package/index.js", "exports.a = 1"}
			for _, f := range tt.files {
				files = append(files, f[0], f[1])
			}
			w := npmtest.Serve(t)
			w.Use(t)
			w.PublishArchive(t, "@openfn/language-evil", "1.0.0", string(text), npmtest.Archive(t, files...))
			r := open(t, Config{Dir: filepath.Join(t.TempDir(), "repo")})

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
