package adaptors

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/npmtest"
)

const one = "@openfn/language-one@1.0.0"

func open(t testing.TB, cfg Config) *Repo {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(t.TempDir(), "not", "there")
	}
	r, err := Open(cfg)
	require.NoError(t, err)
	return r
}

// names are what is in a folder.
func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestInstallsOnDemandAndOnce(t *testing.T) {
	w := fakes(t)
	r := open(t, Config{})
	var lines []string
	p, err := r.Resolve(t.Context(), one, func(line string) { lines = append(lines, line) })
	require.NoError(t, err)
	dir := installedFolder(r)
	require.Equal(t, Package{
		Name: "@openfn/language-one", Version: "1.0.0", Dir: dir,
		Entry: filepath.Join(dir, "lib", "index.js"), Exports: []string{"default", "fn"},
	}, p)
	require.Len(t, lines, 2)
	require.Equal(t, "Installing "+one, lines[0])
	require.Regexp(t, "^Installed "+one+` in \d`, lines[1])

	again, err := open(t, Config{Dir: r.Dir()}).Resolve(t.Context(), one, func(line string) { require.Fail(t, line) })
	require.NoError(t, err)
	require.Equal(t, p, again)
	_, err = r.Resolve(t.Context(), "@openfn/language-one@2.0.0", nil)
	require.NoError(t, err)

	require.Equal(t, []string{one, "@openfn/language-one@2.0.0"}, w.fetched())
	require.Equal(t, []string{"language-one@1.0.0", "language-one@2.0.0"}, names(t, filepath.Join(r.Dir(), "@openfn")))
	list, err := r.List()
	require.NoError(t, err)
	require.Len(t, list, 2)
	require.Equal(t, p, list[0])
	require.Equal(t, "2.0.0", list[1].Version)
}

func TestARepoThatIsNotThereIsEmpty(t *testing.T) {
	list, err := open(t, Config{}).List()
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestConcurrentRunsShareAnInstall(t *testing.T) {
	w := fakes(t)
	asked, release := w.hold(t)
	r := open(t, Config{})
	type outcome struct {
		p   Package
		err error
	}
	out, told := make(chan outcome, 2), make(chan string, 8)
	for range 2 {
		go func() {
			p, err := r.Resolve(t.Context(), one, func(line string) { told <- line })
			out <- outcome{p, err}
		}()
	}
	<-asked
	require.Equal(t, "Installing "+one, <-told)
	require.Equal(t, "Installing "+one, <-told, "both are told")
	release()
	a, b := <-out, <-out
	require.NoError(t, a.err)
	require.Equal(t, a, b)
	require.Equal(t, []string{one}, w.fetched())
}

func TestTheEndOfTheRepoEndsAnInstall(t *testing.T) {
	asked, _ := fakes(t).hold(t)
	r := open(t, Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	out := make(chan error)
	go func() {
		_, err := r.Resolve(ctx, one, nil)
		out <- err
	}()
	q := <-asked
	cancel(errNobody)
	require.ErrorIs(t, <-out, errNobody)
	require.NoError(t, q.Context().Err(), "it goes on")
	r.Close()
	<-q.Context().Done()
	require.Empty(t, names(t, filepath.Join(r.Dir(), "@openfn")), "nothing half done")
}

func TestWhoInstalledFirstWins(t *testing.T) {
	w := fakes(t)
	other := open(t, Config{})
	_, err := other.Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	t.Setenv("npm_config_cache", t.TempDir())
	asked, release := w.hold(t)
	r := open(t, Config{})
	out := make(chan error)
	go func() {
		_, err := r.Resolve(t.Context(), one, nil)
		out <- err
	}()
	<-asked
	theirs := r.preparedFolder(specifier{"@openfn/language-one", "1.0.0"}) // as another process would
	require.NoError(t, os.CopyFS(theirs, os.DirFS(other.preparedFolder(specifier{"@openfn/language-one", "1.0.0"}))))
	require.NoError(t, os.WriteFile(filepath.Join(theirs, "theirs"), nil, 0o600))
	release()
	require.NoError(t, <-out)
	require.FileExists(t, filepath.Join(theirs, "theirs"))
	require.Equal(t, []string{"language-one@1.0.0"}, names(t, filepath.Join(r.Dir(), "@openfn")))
}

func TestWhatTheDeadHaveLeftIsSwept(t *testing.T) {
	fakes(t)
	r := open(t, Config{})
	scope := filepath.Join(r.Dir(), "@openfn")
	for name, age := range map[string]time.Duration{"old": 2 * time.Hour, "new": time.Minute} {
		dir := filepath.Join(scope, unfinished+name)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "node_modules"), 0o700))
		require.NoError(t, os.Chtimes(dir, time.Time{}, time.Now().Add(-age)))
	}
	_, err := r.Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	require.Equal(t, []string{unfinished + "new", "language-one@1.0.0"}, names(t, scope))
}

// A .npmrc may speak of any variable but those of the worker itself.
func TestWhatTheSettingsOfNPMMaySpeakOf(t *testing.T) {
	w := fakes(t)
	r := open(t, Config{})
	host := strings.TrimPrefix(w.URL, "http:")
	t.Chdir(t.TempDir())
	const npmrc = ".npmrc"
	t.Setenv("NPM_TOKEN", "asked")
	t.Setenv("WORKER_SECRET", "hush")

	require.NoError(t, os.WriteFile(npmrc, []byte(host+"/:_authToken=${NPM_TOKEN}\n"), 0o600))
	_, err := r.Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	for _, q := range w.Asked() {
		require.Equal(t, "Bearer asked", q.Header.Get("Authorization"))
	}
	w.Forget()
	require.NoError(t, os.WriteFile(npmrc, []byte(host+"/:_authToken=${WORKER_SECRET}\n"), 0o600))
	_, err = r.Resolve(t.Context(), "@openfn/language-one@2.0.0", nil)
	require.ErrorContains(t, err, "npm's settings: "+host+"/:_authToken speaks of a variable that is not set, or is the worker's own")
	require.Empty(t, w.Asked())
}

func TestWhyAPackageIsNotInstalled(t *testing.T) {
	// publish has a version of the package that is another one, in its archive.
	publish := func(manifest string, files ...string) func(*testing.T, world) {
		return func(t *testing.T, w world) {
			archive := npmtest.Archive(t, append([]string{"package/package.json", manifest, "package/lib/index.js", ""}, files...)...)
			w.PublishArchive(t, "@openfn/language-one", "1.0.0", "", archive)
		}
	}
	status := func(code int) func(*testing.T, world) {
		return func(_ *testing.T, w world) { w.Fail(code) }
	}
	tests := []struct {
		name    string
		prepare func(t *testing.T, w world)
		want    string // a pattern
		unable  bool   // others would not be installed either
	}{
		{"unknown version", func(t *testing.T, w world) { w.Set("@openfn/language-one", "versions", map[string]any{}) }, `127\.0\.0\.1:\d+ has no such version`, false},
		{"unknown package", status(404), "the registry knows no such package or version, or may not give it out: .* says 404", false},
		{"an ill registry", status(503), `the registry 127\.0\.0\.1:\d+ is ill: 127\.0\.0\.1:\d+ says 503`, true},
		{"no registry", func(_ *testing.T, w world) { w.Close() }, "the registry .* cannot be reached from this worker: .*connection refused", true},
		{"credentials", status(401), "the registry .* wants other credentials: see //127.*/:_authToken in the .npmrc", true},
		{"not allowed", status(403), "the registry refuses to give this package out: .* says 403", false},
		{"offline on purpose", func(t *testing.T, _ world) { t.Setenv("npm_config_offline", "true") }, "npm is set to be offline, and it is not in the cache", false},
		{"settings that make no sense", func(t *testing.T, _ world) { t.Setenv("npm_config_registry", "registry") }, "npm's settings: registry is not the address of a registry: .*", true},
		{"another version", publish(`{"name":"@openfn/language-one","version":"3.0.0"}`), `the archive has version 3\.0\.0`, false},
		{"another package", publish(`{"name":"@openfn/runtime","version":"1.0.0"}`), `what the registry gives out calls itself "@openfn/runtime"`, false},
		{"a name that is a path", publish(`{"name":"../../../evil","version":"1.0.0"}`), `what the registry gives out calls itself "\.\./\.\./\.\./evil"`, false},
		{"what it needs is unknown", func(t *testing.T, w world) {
			w.Publish(t, "@openfn/language-one", "1.0.0", `{"dependencies":{"needed":"^1"}}`)
		}, "it needs needed: the registry knows no such package or version, .*", false},
		{"another sum", func(t *testing.T, w world) {
			w.Publish(t, "@openfn/language-one", "1.0.0", `{"dist":{"integrity":"`+npmtest.Integrity(nil)+`"}}`)
		}, "the archive is not the one that the registry announced: its SHA-512 sum is another", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			w := fakes(t)
			tt.prepare(t, w)
			r := open(t, Config{})
			_, err := r.Resolve(t.Context(), one, nil)
			failure, ok := errors.AsType[*InstallError](err)
			require.True(t, ok, err)
			require.Regexp(t, "^"+tt.want+"$", failure.Reason)
			require.Equal(t, tt.unable, failure.Unable)
			require.EqualError(t, err, "Error installing "+one+": "+failure.Reason)
			require.Empty(t, names(t, filepath.Join(r.Dir(), "@openfn")))
			require.NoDirExists(t, filepath.Join(filepath.Dir(r.Dir()), "evil"))
		})
	}
}

func TestAModuleThatIsElsewhere(t *testing.T) {
	w := fakes(t)
	for _, main := range []string{"../../../../../../x.js", "/../../x.js"} {
		w.Publish(t, "@openfn/language-one", "1.0.0", `{"main":"`+main+`"}`)
		_, err := open(t, Config{}).Resolve(t.Context(), one, nil)
		require.ErrorContains(t, err, "its module is outside of its folder: ", main)
	}
}

// Nothing but Node is looked for in the path.
func TestWithoutNPM(t *testing.T) {
	w := fakes(t)
	t.Setenv("PATH", w.bin+string(os.PathListSeparator)+"/bin")
	_, err := open(t, Config{}).Resolve(t.Context(), "@openfn/language-one", nil)
	require.NoError(t, err)
}

// What OpenFn's worker has installed in the folder is used, and nothing is fetched for it.
func TestAFolderOfOpenFnsWorker(t *testing.T) {
	w := fakes(t)
	r := open(t, Config{})
	home := filepath.Join(r.Dir(), "node_modules", "@openfn", "language-one_1.0.0")
	require.NoError(t, os.MkdirAll(home, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(home, "package.json"), []byte(`{"name":"@openfn/language-one","version":"1.0.0","main":"dist.js"}`), 0o600))
	for range 2 {
		p, err := r.Resolve(t.Context(), one, func(line string) { require.Fail(t, line) })
		require.NoError(t, err)
		require.Equal(t, Package{Name: "@openfn/language-one", Version: "1.0.0", Dir: home, Entry: filepath.Join(home, "dist.js"), Exports: []string{"default", "fn"}}, p)
	}
	require.Empty(t, w.Paths())
	_, err := r.Resolve(t.Context(), "@openfn/language-one@2.0.0", nil)
	require.NoError(t, err)
	require.Equal(t, []string{"@openfn/language-one@2.0.0"}, w.fetched())
}

func TestAFolderThatCannotBeUsed(t *testing.T) {
	fakes(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := open(t, Config{Dir: file}).Resolve(t.Context(), one, nil)
	require.ErrorContains(t, err, "Error installing "+one+": ")
	require.ErrorContains(t, err, "not a directory")
}
