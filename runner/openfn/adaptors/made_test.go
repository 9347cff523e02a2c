package adaptors

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// loggingNode is fakeNode that notes in a file each time it is asked to look into a package.
const loggingNode = `#!/bin/sh
for last; do :; done
case $last in
--version) echo v22.22.0 ;;
*) echo asked >>"${0%/*}/asked"; echo '[{"exports":["fn"]}]' >&3 ;;
esac
`

// A bundle that was made for one folder serves all others, without Node and without the registry, unless its file in the
// cache is damaged or could have been written by somebody else.
func TestABundleIsMadeOncePerCache(t *testing.T) {
	w := fakes(t)
	w.Publish(t, "@openfn/language-plain", "1.0.0", `{"dependencies":{"helper":"^1.0.0"}}`, "package/index.js", "exports.fn = require('helper');")
	w.Publish(t, "helper", "1.0.0", "", "package/index.js", "module.exports = 1;")
	require.NoError(t, os.WriteFile(filepath.Join(w.bin, "node"), []byte(loggingNode), 0o755))
	install := func(cfg Config) (folder string, asked int) {
		t.Helper()
		_ = os.Remove(filepath.Join(w.bin, "asked"))
		r := open(t, cfg)
		p, err := r.Resolve(t.Context(), "@openfn/language-plain@1.0.0", nil)
		require.NoError(t, err)
		require.True(t, p.Bundled)
		text, _ := os.ReadFile(filepath.Join(w.bin, "asked"))
		return r.preparedFolder(specifier{"@openfn/language-plain", "1.0.0"}), strings.Count(string(text), "asked")
	}
	first, asked := install(Config{})
	require.Equal(t, 1, asked)
	w.Forget()
	second, asked := install(Config{})
	require.Zero(t, asked)
	require.Empty(t, w.Paths())
	require.Equal(t, contents(t, first), contents(t, second))
	_, asked = install(Config{Again: true})
	require.Equal(t, 1, asked, "it is asked for anew")

	made := filepath.Join(os.Getenv("npm_config_cache"), "phxworker", "made")
	require.NoError(t, os.Chmod(made, 0o777))
	_, asked = install(Config{})
	require.Equal(t, 1, asked, "somebody else could have written it")
	require.NoError(t, os.Chmod(made, 0o700))
	for _, name := range names(t, made) {
		raw, err := os.ReadFile(filepath.Join(made, name))
		require.NoError(t, err)
		raw[len(raw)/2] ^= 1
		require.NoError(t, os.WriteFile(filepath.Join(made, name), raw, 0o600))
	}
	_, asked = install(Config{})
	require.Equal(t, 1, asked, "it is damaged")
}

// contents are the files of a folder with what is in them.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	all := make(map[string]string)
	require.NoError(t, fs.WalkDir(os.DirFS(dir), ".", func(name string, e fs.DirEntry, err error) error {
		if err == nil && !e.IsDir() {
			raw, failed := os.ReadFile(filepath.Join(dir, name))
			all[name], err = string(raw), failed
		}
		return err
	}))
	return all
}
