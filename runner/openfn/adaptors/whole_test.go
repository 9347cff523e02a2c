package adaptors

import (
	"context"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/npmtest"
)

// installedFolder is where the package is.
func installedFolder(r *Repo) string {
	return npmFolder(r.preparedFolder(specifier{"@openfn/language-one", "1.0.0"}), "@openfn/language-one")
}

// Guards against packages with empty files that count as installed for ever.
func TestASmallDisk(t *testing.T) {
	needNode(t)
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=1m"); err != nil {
		t.Skip("no file system may be mounted here, and this test needs a small one: ", err)
	}
	t.Cleanup(func() { require.NoError(t, syscall.Unmount(dir, 0)) })
	w := npmtest.Serve(t)
	w.Use(t)
	w.Publish(t, "@openfn/language-one", "1.0.0", `{"main":"lib/index.js","type":"module"}`, "package/lib/index.js", `export const fn = "`+strings.Repeat("a", 2<<20)+`"`)
	r := open(t, Config{Dir: dir})
	_, err := r.Resolve(t.Context(), one, nil)
	require.Equal(t, &InstallError{Specifier: one, Reason: "no space left in " + r.Dir(), Unable: true}, err)
	require.NoError(t, syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=20m"))
	p, err := r.Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	require.True(t, p.Bundled)
	require.Empty(t, p.Problem)
	mended, err := r.Mend(t.Context(), p, nil)
	require.NoError(t, err)
	require.False(t, mended, "it is whole")
}

// Guards against damage that stays: a package that is met and is not what was installed is
// installed again, once.
func TestWhatIsDamagedIsInstalledAgain(t *testing.T) {
	tests := []struct {
		name   string
		damage func(t *testing.T, r *Repo)
	}{
		{"an empty manifest", func(t *testing.T, r *Repo) {
			require.NoError(t, os.Truncate(filepath.Join(installedFolder(r), "package.json"), 0))
		}},
		{"an empty file", func(t *testing.T, r *Repo) {
			require.NoError(t, os.Truncate(filepath.Join(installedFolder(r), "lib", "index.js"), 0))
		}},
		{"a file that is missing", func(t *testing.T, r *Repo) {
			require.NoError(t, os.Remove(filepath.Join(installedFolder(r), "lib", "index.js")))
		}},
		{"the package is missing", func(t *testing.T, r *Repo) {
			require.NoError(t, os.RemoveAll(filepath.Join(r.preparedFolder(specifier{"@openfn/language-one", "1.0.0"}), "node_modules")))
		}},
		{"what is known of it is cut short", func(t *testing.T, r *Repo) {
			require.NoError(t, os.Truncate(filepath.Join(r.preparedFolder(specifier{"@openfn/language-one", "1.0.0"}), preparedFile), 3))
			require.NoError(t, os.Truncate(filepath.Join(installedFolder(r), "lib", "index.js"), 1))
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fakes(t)
			dir := open(t, Config{}).Dir()
			_, err := open(t, Config{Dir: dir}).Resolve(t.Context(), one, nil)
			require.NoError(t, err)
			again := open(t, Config{Dir: dir}) // a worker that is started later
			tt.damage(t, again)
			installs := 0
			for range 2 {
				_, err = again.Resolve(t.Context(), one, countInstalls(&installs))
				require.NoError(t, err)
			}
			text, err := os.ReadFile(filepath.Join(installedFolder(again), "lib", "index.js"))
			require.NoError(t, err)
			require.Equal(t, oneModule, string(text))
			require.Equal(t, 1, installs)
			require.Equal(t, []string{"language-one@1.0.0"}, names(t, filepath.Join(dir, "@openfn")))
		})
	}
}

// What is known of a package that was bundled is all that is looked at for a run.
func TestABundleThatIsDamagedIsMadeAgain(t *testing.T) {
	needNode(t)
	w := npmtest.Serve(t)
	w.Use(t)
	w.Publish(t, "@openfn/language-one", "1.0.0", `{"main":"lib/index.js","type":"module"}`, "package/lib/index.js", "export const fn = 1\n")
	r := open(t, Config{})
	p, err := r.Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	require.True(t, p.Bundled)
	for _, file := range []string{bundleFile, "index.js"} {
		path := filepath.Join(p.Dir, file)
		require.NoError(t, os.Truncate(path, 10))
		again, err := r.Resolve(t.Context(), one, nil)
		require.NoError(t, err)
		require.Equal(t, p, again)
		info, err := os.Stat(path)
		require.NoError(t, err)
		require.Greater(t, info.Size(), int64(10), file)
	}
}

// A package that Node cannot load is not installed again and again: that is the package's fault.
func TestWhatCannotBeLoadedIsInstalledOnce(t *testing.T) {
	w := fakes(t)
	require.NoError(t, os.WriteFile(filepath.Join(w.bin, "broken"), nil, 0o600))
	dir, installs := open(t, Config{}).Dir(), 0
	for range 3 {
		p, err := open(t, Config{Dir: dir}).Resolve(t.Context(), one, countInstalls(&installs))
		require.NoError(t, err)
		require.Equal(t, "it is empty", p.Problem)
	}
	require.Equal(t, 1, installs)
}

func TestMend(t *testing.T) {
	fakes(t)
	r := open(t, Config{})
	p, err := r.Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	installs := 0
	mend := func(want bool) {
		t.Helper()
		mended, err := r.Mend(t.Context(), p, countInstalls(&installs))
		require.NoError(t, err)
		require.Equal(t, want, mended)
	}
	mend(false)
	require.NoError(t, os.Truncate(filepath.Join(installedFolder(r), "lib", "index.js"), 1))
	mend(true)
	mend(false)
	require.NoError(t, os.Remove(filepath.Join(r.preparedFolder(specifier{"@openfn/language-one", "1.0.0"}), preparedFile)))
	mend(true)
	require.Equal(t, 2, installs)

	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errNobody)
	require.NoError(t, os.Remove(filepath.Join(r.preparedFolder(specifier{"@openfn/language-one", "1.0.0"}), preparedFile)))
	_, err = r.Mend(ended, p, nil)
	require.ErrorIs(t, err, errNobody)
	r.Close()
}

func TestEachIsInstalledAgainOnce(t *testing.T) {
	fakes(t)
	dir := open(t, Config{}).Dir()
	installs := 0
	for range 2 {
		r := open(t, Config{Dir: dir, Again: true})
		for range 2 {
			_, err := r.Resolve(t.Context(), one, countInstalls(&installs))
			require.NoError(t, err)
		}
	}
	require.Equal(t, 2, installs)
}

// countInstalls counts the lines that tell of one.
func countInstalls(n *int) func(string) {
	return func(line string) {
		if line == "Installing "+one {
			*n++
		}
	}
}

// Files of the cache that are damaged are fetched again.
func TestACacheThatIsDamaged(t *testing.T) {
	w := fakes(t)
	cache := t.TempDir()
	t.Setenv("npm_config_cache", cache)
	for _, damage := range []func(path string) error{func(string) error { return nil }, os.Remove, func(path string) error { return os.Truncate(path, 10) }} {
		require.NoError(t, filepath.WalkDir(cache, func(path string, e fs.DirEntry, err error) error {
			if err == nil && !e.IsDir() {
				err = damage(path)
			}
			return err
		}))
		_, err := open(t, Config{}).Resolve(t.Context(), one, nil)
		require.NoError(t, err)
	}
	require.Len(t, w.fetched(), 3)
}

// Guards against a worker of a new version that has no network, and nothing to make its bundles of.
func TestWithoutTheRegistryTheBundleOfAnotherVersionServes(t *testing.T) {
	w := fakes(t)
	w.Publish(t, "@openfn/language-one", "1.0.0", `{"main":"lib/index.js","type":"module"}`, "package/lib/index.js", "export const fn = 1\n")
	r := open(t, Config{})
	before, err := r.Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	require.True(t, before.Bundled)

	later := open(t, Config{Dir: r.Dir()})
	later.bundleFolder = bundlePrefix + "later"
	w.Fail(503)
	t.Setenv("npm_config_cache", t.TempDir())
	w.Forget()
	for i := range 2 {
		p, err := later.Resolve(t.Context(), one, nil)
		require.NoError(t, err)
		require.Equal(t, before, p)
		require.Equal(t, i == 0, len(w.Paths()) > 0, "the registry is left alone for a while")
		w.Forget()
	}
	list, err := later.List()
	require.NoError(t, err)
	require.Equal(t, []Package{before}, list)

	w.Fail(0)
	again := open(t, Config{Dir: r.Dir()})
	again.bundleFolder = later.bundleFolder
	p, err := again.Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	require.Contains(t, p.Dir, later.bundleFolder)
}
