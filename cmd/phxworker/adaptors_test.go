package main

import (
	"bytes"
	stdlog "log"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/npmtest"
)

func TestAdaptorsUsage(t *testing.T) {
	tests := []struct {
		name string
		args string
		want string
	}{
		{"no command", "adaptors", "say what to do: phxworker adaptors install NAME@VERSION…, or phxworker adaptors list"},
		{"unknown command", "adaptors bogus", `unknown command or argument "bogus"; see phxworker --help`},
		{"argument of list", "adaptors list x", `unknown command or argument "x"; see phxworker --help`},
		{"no adaptor", "adaptors install language-http@7.2.10", `"language-http@7.2.10" is no adaptor: their names begin with @openfn/, as in @openfn/language-http@7.2.10`},
		{"unknown option", "adaptors install --bogus", "unknown option --bogus; see phxworker adaptors install --help"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			requireUsageError(t, tt.want, nil, strings.Fields(tt.args)...)
		})
	}
	for _, args := range []string{"adaptors --help", "adaptors install --help", "adaptors list -h"} {
		code, stdout, _ := execute(t.Context(), nil, strings.Fields(args)...)
		require.Equal(t, exitOK, code)
		require.Contains(t, stdout, "phxworker adaptors install [--force] [--repo-dir DIR] NAME@VERSION...", args)
	}
}

// The limit is read before anything is installed, which takes long.
func TestAdaptorsAreInstalledForALimitThatIsANumber(t *testing.T) {
	env := map[string]string{"WORKER_MAX_RUN_MEMORY_MB": "lots"}
	requireUsageError(t, `WORKER_MAX_RUN_MEMORY_MB "lots" is not a number of MB: write one greater than 0`, env, "adaptors", "install", "--repo-dir", t.TempDir())
}

// pretendNode puts a node into PATH that can load any package, and returns a registry that
// has some, to which npm's settings lead.
func pretendNode(t *testing.T) *npmtest.Registry {
	t.Helper()
	r := npmtest.Serve(t)
	r.Use(t)
	for name, version := range map[string]string{"language-full": "1.0.0", "language-broken": "1.0.0", "logger": "1.0.0"} {
		r.Publish(t, "@openfn/"+name, version, "", "package/index.js", "await 1")
	}
	r.Publish(t, "@openfn/runtime", "1.9.5", `{"dependencies":{"@openfn/logger":"1.0.0"}}`, "package/index.js", "await 1")
	r.Publish(t, "@openfn/language-one", "1.0.0", `{"dependencies":{"@openfn/logger":"1.0.0"}}`, "package/index.js", "await 1")
	bin := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(bin, "node"), []byte(`#!/bin/sh
for last; do :; done
case $last in
*process.versions.node*) echo "{\"version\":\"22.22.0\",\"flags\":[\"--permission\"]}" ;;
*logger*) echo '[{"exports":[]},{"exports":[]}]' >&3 ;;
*broken*) echo '[{"error":"it has no modules"}]' >&3 ;;
*) echo '[{"exports":[]}]' >&3 ;;
esac
`), 0o755))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	return r
}

func TestAdaptorsAreInstalledAndListed(t *testing.T) {
	pretendNode(t)
	dir := filepath.Join(t.TempDir(), "repo")
	env := map[string]string{"WORKER_REPO_DIR": dir}

	code, stdout, _ := execute(t.Context(), env, "adaptors", "list")
	require.Equal(t, exitOK, code)
	require.Equal(t, "nothing is installed in "+dir+"\n", stdout)

	code, stdout, stderr := execute(t.Context(), env, "adaptors", "install", "@openfn/language-one@1.0.0", "@openfn/missing@1.0.0", "@openfn/not a name")
	require.Equal(t, exitFailure, code, stderr)
	require.Contains(t, stdout, "Installing @openfn/language-one@1.0.0\n")
	require.Contains(t, stdout, "@openfn/language-one@1.0.0 is ready for Node alone: it cannot be made")
	require.Equal(t, 1, strings.Count(stdout, "language-one@1.0.0 is "), stdout)
	require.True(t, strings.HasSuffix(stdout, "what is ready is in "+dir+"\n"), stdout)
	require.Regexp(t, `^Error installing @openfn/missing@1.0.0: the registry knows no such package or version, or may not give it out: .* says 404
Error installing @openfn/not a name: this is not the name of an npm package
phxworker: 2 of 3 adaptors could not be installed; the lines above say why
$`, stderr)

	for _, args := range [][]string{{"adaptors", "list"}, {"adaptors", "list", "--repo-dir", dir}, {"adaptors", "list", "-d", dir}} {
		code, stdout, stderr = execute(t.Context(), env, args...)
		require.Equal(t, exitOK, code)
		require.Empty(t, stderr)
		require.Equal(t, `package               version  bundled  engine
@openfn/language-one  1.0.0    no       node: cannot be made into code for the embedded engine: node_modules/@openfn/language-one/index.js: Top-level await is currently not supported with the "cjs" output format (@openfn/language-one@1.0.0)
@openfn/runtime       1.9.5    no       -
`, stdout)
		env = nil // the next ones name the folder
	}

	code, stdout, stderr = execute(t.Context(), nil, "adaptors", "install", "@openfn/language-one@1.0.0", "-d", dir)
	require.Equal(t, exitOK, code, stderr)
	require.NotContains(t, stdout, "Installing")

	code, stdout, stderr = execute(t.Context(), nil, "adaptors", "install", "@openfn/language-one@1.0.0", "-d", dir, "--force")
	require.Equal(t, exitOK, code, stderr)
	for _, name := range []string{"@openfn/runtime", "@openfn/language-one"} {
		require.Equal(t, 1, strings.Count(stdout, "Installing "+name+"@"), name)
	}
}

// Guards against an adaptor that the embedded engine can execute, and of which nothing is said but that Node cannot load it.
func TestAnAdaptorThatIsForTheEmbeddedEngineAlone(t *testing.T) {
	pretendNode(t).Publish(t, "@openfn/language-broken", "2.0.0", "", "package/index.js", "exports.fn = f => f")
	code, stdout, stderr := execute(t.Context(), nil, "adaptors", "install", "-d", t.TempDir(), "@openfn/language-broken@2.0.0")
	require.Equal(t, exitFailure, code)
	require.Contains(t, stderr, "@openfn/language-broken@2.0.0 is installed, but Node cannot load it: it has no modules")
	require.Contains(t, stdout, "@openfn/language-broken@2.0.0 is ready for the embedded engine\n")
}

// Guards against an adaptor that is called ready and cannot be loaded, as one that was damaged on its way.
func TestWhatIsNotReadyIsNotCalledSo(t *testing.T) {
	r := pretendNode(t)
	dir := t.TempDir()
	r.Publish(t, "@openfn/language-full", "1.0.0", `{"dist":{"integrity":"`+npmtest.Integrity(nil)+`"}}`)
	code, stdout, stderr := execute(t.Context(), nil, "adaptors", "install", "-d", dir, "@openfn/language-full@1.0.0", "@openfn/language-broken@1.0.0", "@openfn/language-one@1.0.0")
	require.Equal(t, exitFailure, code)
	require.Equal(t, `Error installing @openfn/language-full@1.0.0: the archive is not the one that the registry announced: its SHA-512 sum is another
@openfn/language-broken@1.0.0 is installed, but Node cannot load it: it has no modules
phxworker: 2 of 3 adaptors could not be installed; the lines above say why
`, stderr)
	require.NotContains(t, stdout, "full@1.0.0 is ready")
	require.NotContains(t, stdout, "broken@1.0.0 is ready")
	require.Contains(t, stdout, "@openfn/language-one@1.0.0 is ready for Node alone")

	manifests, err := filepath.Glob(filepath.Join(dir, "@openfn", "language-one@1.0.0", "bundle-*", "node_modules", "@openfn", "logger", "package.json"))
	require.NoError(t, err)
	require.Len(t, manifests, 1)
	manifest := manifests[0]
	require.NoError(t, os.Truncate(manifest, 0)) // which is not looked at before a run needs it
	code, stdout, stderr = execute(t.Context(), nil, "adaptors", "install", "-d", dir, "@openfn/language-one@1.0.0")
	require.Equal(t, exitOK, code, stderr)
	require.Contains(t, stdout, "Installing @openfn/language-one@1.0.0\n")
	info, err := os.Stat(manifest)
	require.NoError(t, err)
	require.NotZero(t, info.Size())
}

// Guards against lines of net/http between those of the command: a registry closes a connection that nobody uses, and says so.
func TestAClosedConnectionOfARegistryIsNotTold(t *testing.T) {
	var out bytes.Buffer
	to := stdlog.New(withoutUnsolicited{&out}, "", 0)
	to.Printf("Unsolicited response received on idle HTTP channel starting with %q; err=%v", "HTTP/1.1 408 Request Timeout", nil)
	to.Print("something else")
	require.Equal(t, "something else\n", out.String())
}

// Guards against a tag that means one version for one engine and, minutes later, another one for the other: what is
// looked up for a run is so once for both.
func TestATagIsLookedUpOnceForBothEngines(t *testing.T) {
	r := pretendNode(t)
	r.Instead(func(_ http.ResponseWriter, q *http.Request) bool {
		if strings.HasSuffix(q.URL.Path, ".tgz") { // between the engines: time passes, until what the registry said is not fresh any more
			kept, _ := filepath.Glob(filepath.Join(os.Getenv("npm_config_cache"), "phxworker", "metadata", "*"))
			for _, path := range kept {
				_ = os.Chtimes(path, time.Time{}, time.Now().Add(-time.Hour))
			}
		}
		return false
	})
	_, _, stderr := execute(t.Context(), nil, "run", inFile(t, "job.js", "one()"), "--adaptor", "@openfn/language-one", "--repo-dir", t.TempDir())
	require.Equal(t, 1, r.Count("/@openfn/language-one"), stderr)
	require.Equal(t, 1, r.Count("/@openfn/runtime"), "it came to the other engine")
}
