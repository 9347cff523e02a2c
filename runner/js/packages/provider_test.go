package packages

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/npmtest"
	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

// common makes an adaptor whose fn is what language-common's is, as far as these tests need it.
const common = `exports.fn = f => state => f(state); exports.execute = (...list) => async state => { for (const f of list) state = await f(state); return state; };`

// openIn returns a provider with a repo in a folder.
func openIn(t *testing.T, dir string) *Provider {
	t.Helper()
	repo, err := adaptors.Open(adaptors.Config{Dir: dir})
	require.NoError(t, err)
	t.Cleanup(repo.Close)
	p, err := Open(Config{Repo: repo})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	return p
}

// execute executes a job with an adaptor.
func execute(t *testing.T, p *Provider, adaptor, body string) mockserver.RunRecord {
	t.Helper()
	code, _ := json.Marshal(body)
	plan := `{"id":"` + runtest.NewID() + `","jobs":[{"id":"a","adaptor":"` + adaptor + `","body":` + string(code) + `}]}`
	w := runtest.New(t, js.New(js.Config{Packages: p}))
	return w.Run(t.Context(), runner.Limits{}, mockserver.Run{Plan: json.RawMessage(plan)})
}

func TestWhichEngineAnAdaptorIsFor(t *testing.T) {
	tests := []struct{ name, manifest, code, want string }{
		{name: "plain", code: common},
		{name: "own files and a dependency", manifest: `{"dependencies":{"helper":"^1.0.0"}}`, code: common + `exports.help = require('helper').help;`},
		{name: "files", code: common + `const fs = require('fs'); exports.read = () => fs.readFileSync('/etc/passwd');`, want: `reaches fs of Node, which the embedded engine does not have \(@openfn/language-x@1.0.0\)`},
		{name: "files, beside what the registry has nothing for", code: common + `require('events'); exports.fs = () => require('fs');`, want: `reaches fs of Node, which the embedded engine does not have \(@openfn/language-x@1.0.0\)`},
		{name: "processes in a dependency", manifest: `{"dependencies":{"starter":"1.0.0"}}`, code: common + `exports.s = () => require('starter');`, want: `reaches child_process of Node, which the embedded engine does not have \(starter@1.0.0\)`},
		{name: "an older undici", manifest: `{"dependencies":{"undici":"^5.0.0"}}`, code: common + `exports.r = () => require('undici').request;`, want: `brings undici@5.29.0, and that of the embedded engine does as version 7 \(@openfn/language-x@1.0.0\)`},
		{name: "a language", code: common + `exports.name = n => n.toLocaleString('de');`, want: `says toLocaleString, which the embedded engine does otherwise \(@openfn/language-x@1.0.0\)`},
		{name: "what a pattern found last", code: common + `exports.first = t => /(.)/.test(t) && RegExp.$1;`, want: `says RegExp\.\$1, which the embedded engine does otherwise \(@openfn/language-x@1.0.0\)`},
		{name: "Intl", code: common + `exports.name = () => new Intl.NumberFormat('de');`, want: `says Intl, which the embedded engine does otherwise \(@openfn/language-x@1.0.0\)`},
		{name: "native code", code: common + `exports.fast = require('./fast.node');`, want: `has native code \(@openfn/language-x@1.0.0\)`},
		{name: "it calls for something as it is loaded", code: common + `const name = 'node:fs'; exports.x = (r => r(name).existsSync('x'))(require);`, want: "calls fs.existsSync of Node when it is loaded, which the embedded engine does not have"},
		{name: "it does not load", code: `throw new Error('not today');`, want: "does not load in the embedded engine: Error: not today"},
		{name: "it never ends loading", code: common + `Object.defineProperty(exports, 'slow', { enumerable: true, get() { let n = 0; while (n < 4e6) n++; return 1; } });`, want: `takes \d+ ms to load in the embedded engine, as long as Node`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			registry := npmtest.Serve(t)
			registry.Use(t)
			registry.Publish(t, "helper", "1.2.0", "", "package/index.js", `exports.help = 1;`)
			registry.Publish(t, "starter", "1.0.0", "", "package/index.js", `exports.run = require('child_process');`)
			registry.Publish(t, "undici", "5.29.0", "", "package/index.js", `exports.request = 5;`)
			registry.Publish(t, "@openfn/language-x", "1.0.0", tt.manifest, "package/index.js", tt.code, "package/fast.node", "\x7fELF")
			dir := t.TempDir()
			one, err := openIn(t, dir).Package(t.Context(), "@openfn/language-x@1.0.0", nil)
			require.NoError(t, err)
			require.Regexp(t, "^"+tt.want+"$", one.Node)
			list := openIn(t, dir).List()
			require.Equal(t, []Verdict{{Name: "@openfn/language-x", Version: "1.0.0", Node: one.Node}}, list)
			record := execute(t, openIn(t, dir), "@openfn/language-x@1.0.0", "fn(s => ({ data: 1 }))")
			if tt.want == "" {
				require.Equal(t, "success", record.Reason, record.ErrorMessage)
				return
			}
			require.Equal(t, "exception", record.Reason)
			require.Regexp(t, tt.want, record.ErrorMessage)
			require.NotContains(t, events(record), "run:start")
		})
	}
}

// Guards against an adaptor that ends a run in the middle, since something that it depends on is not there: what is only looked for may
// be done without.
func TestADependencyThatIsNotThereIsTold(t *testing.T) {
	tests := []struct{ name, manifest, code, want string }{
		{"declared", `{"dependencies":{"@scope/helper":"1.0.0"}}`, `exports.help = () => state => require('@scope/helper/below').help(state);`, "lacks @scope/helper, which it depends on (@openfn/language-x@1.0.0)"},
		{"optional", `{"dependencies":{"helper":"1.0.0"},"optionalDependencies":{"helper":"1.0.0"}}`, `try { require('helper') } catch {}`, ""},
		{"not declared", `{"main":"index.js"}`, `try { require('helper') } catch {}`, ""},
		{"one of its files", `{"main":"index.js"}`, `try { require('./gone') } catch {}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			registry := npmtest.Serve(t)
			registry.Use(t)
			registry.PublishArchive(t, "@openfn/language-x", "1.0.0", "", npmtest.Archive(t, "package/package.json", strings.Replace(tt.manifest, "{", `{"name":"@openfn/language-x","version":"1.0.0",`, 1), "package/index.js", common+tt.code)) // the registry's metadata has none
			one, err := openIn(t, t.TempDir()).Package(t.Context(), languageX, nil)
			require.NoError(t, err)
			require.Equal(t, tt.want, one.Node)
		})
	}
}

func events(record mockserver.RunRecord) (names []string) {
	for _, e := range record.Events {
		names = append(names, e.Event)
	}
	return names
}

// Guards against a run that ends in success with what a stub made of it, and against the same again: what calls for something
// that is missing is caught by the adaptor here, and ends the run all the same.
func TestAnAdaptorThatCallsForWhatIsMissingIsForNode(t *testing.T) {
	registry := npmtest.Serve(t)
	registry.Use(t)
	registry.Publish(t, "@openfn/language-x", "1.0.0", "", "package/index.js",
		common+`exports.sneak = () => state => { try { const name = 'node:fs'; (r => r(name).readFileSync('x'))(require); } catch {} return { data: 'all is well' }; };`)
	dir := t.TempDir()
	p := openIn(t, dir)
	record := execute(t, p, "@openfn/language-x@1.0.0", "sneak()")
	require.Equal(t, "exception", record.Reason)
	require.Equal(t, "EngineError", record.ErrorType)
	require.Contains(t, record.ErrorMessage, "@openfn/language-x@1.0.0 called fs.readFileSync of Node, which the embedded engine does not have")
	for _, p := range []*Provider{p, openIn(t, dir)} { // the same worker, and another
		record = execute(t, p, "@openfn/language-x@1.0.0", "fn(s => s)")
		require.Equal(t, "exception", record.Reason)
		require.Contains(t, record.ErrorMessage, "which calls fs.readFileSync of Node, which the embedded engine does not have")
		require.NotContains(t, events(record), "run:start")
	}
}

// What was prepared once needs no registry any more, also for another worker; many who ask at once share one flight.
func TestAnAdaptorIsPreparedOnce(t *testing.T) {
	registry := npmtest.Serve(t)
	registry.Use(t)
	registry.Publish(t, "@openfn/language-x", "1.0.0", "", "package/index.js", common)
	dir := t.TempDir()
	p := openIn(t, dir)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			_, err := p.Package(t.Context(), "@openfn/language-x@1.0.0", nil)
			require.NoError(t, err)
		})
	}
	all.Wait()
	require.Equal(t, 1, registry.Count("/@openfn/language-x"))
	registry.Fail(500)
	t.Setenv("npm_config_cache", t.TempDir())
	for _, specifier := range []string{"@openfn/language-x@1.0.0", "@openfn/language-x@latest", "@openfn/language-x"} {
		record := execute(t, openIn(t, dir), specifier, "fn(() => ({ data: 2 }))")
		require.Equal(t, "success", record.Reason, record.ErrorMessage)
	}
	info, err := os.Stat(filepath.Join(dir, ".embedded"))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o700), info.Mode().Perm())
}

// What was made for one folder serves all others, without the registry.
func TestAnAdaptorIsPreparedOncePerCache(t *testing.T) {
	registry := npmtest.Serve(t)
	registry.Use(t)
	registry.Publish(t, "@openfn/language-x", "1.0.0", `{"dependencies":{"helper":"^1.0.0"}}`, "package/index.js", common+`exports.h = require('helper').h;`)
	registry.Publish(t, "helper", "1.0.0", "", "package/index.js", `exports.h = () => 1;`)
	_, err := openIn(t, t.TempDir()).Package(t.Context(), "@openfn/language-x@1.0.0", nil)
	require.NoError(t, err)
	registry.Forget()
	archives, err := filepath.Glob(filepath.Join(os.Getenv("npm_config_cache"), "phxworker", "archives", "*"))
	require.NoError(t, err)
	for _, archive := range archives { // whoever opened one would find nothing in it
		require.NoError(t, os.WriteFile(archive, nil, 0o600))
	}
	record := execute(t, openIn(t, t.TempDir()), "@openfn/language-x@1.0.0", "fn(() => ({ data: h() }))")
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.Empty(t, registry.Paths())
}

// Guards against bytecode, and against verdicts, that others have written: they are made anew, or not kept.
func TestAFolderOfOthersIsNotBelieved(t *testing.T) {
	registry := npmtest.Serve(t)
	registry.Use(t)
	registry.Publish(t, "@openfn/language-x", "1.0.0", "", "package/index.js", common)
	dir := t.TempDir()
	_, err := openIn(t, dir).Package(t.Context(), "@openfn/language-x@1.0.0", nil)
	require.NoError(t, err)
	registry.Forget()
	t.Setenv("npm_config_cache", t.TempDir())
	for _, folder := range []string{".embedded", ".embedded/chunks"} {
		require.NoError(t, os.Chmod(filepath.Join(dir, folder), 0o777))
	}
	record := execute(t, openIn(t, dir), "@openfn/language-x@1.0.0", "fn(() => ({ data: 2 }))")
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.Equal(t, 1, registry.Count("/@openfn/language-x"), "it was prepared anew")
}

// Guards against a run that begins and then needs the registry: what a folder did not take stays in memory.
func TestAnAdaptorIsPreparedWithoutAFolder(t *testing.T) {
	registry := npmtest.Serve(t)
	registry.Use(t)
	registry.Publish(t, "@openfn/language-x", "1.0.0", "", "package/index.js", common)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, ".embedded"), nil, 0o600))
	p := openIn(t, dir)
	_, err := p.Package(t.Context(), "@openfn/language-x@1.0.0", nil)
	require.NoError(t, err)
	registry.Fail(500)
	t.Setenv("npm_config_cache", t.TempDir())
	t.Setenv("npm_config_fetch_retries", "0")
	record := execute(t, p, "@openfn/language-x@1.0.0", "fn(() => ({ data: 2 }))")
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
}

// Guards against a verdict that was found with another list of what is verified.
func TestAVerdictOfAnotherListIsNotBelieved(t *testing.T) {
	registry := npmtest.Serve(t)
	registry.Use(t)
	registry.Publish(t, "@openfn/language-x", "1.0.0", "", "package/index.js", common)
	dir := t.TempDir()
	_, err := openIn(t, dir).Package(t.Context(), "@openfn/language-x@1.0.0", nil)
	require.NoError(t, err)
	require.Len(t, openIn(t, dir).List(), 1)
	before := verifiedText
	t.Cleanup(func() { verifiedText = before })
	verifiedText = []byte(`{"adaptors":[],"packages":[]}`)
	require.Empty(t, openIn(t, dir).List())
}

// A folder that OpenFn's own worker has filled is used as it is, without a registry.
func TestPackagesOfOpenFnsWorkerAreUsedAsTheyAre(t *testing.T) {
	registry := npmtest.Serve(t)
	registry.Use(t)
	dir := t.TempDir()
	home := filepath.Join(dir, "node_modules", "@openfn", "language-x_1.0.0")
	require.NoError(t, os.MkdirAll(home, 0o755))
	files := map[string]string{
		filepath.Join(home, "package.json"):                            `{"name":"@openfn/language-x","version":"1.0.0","main":"index.js"}`,
		filepath.Join(home, "index.js"):                                common,
		filepath.Join(dir, "node_modules", ".package-lock.json"):       `{"packages":{}}`,
		filepath.Join(dir, "node_modules", "@openfn", "not-a-package"): ``,
	}
	for path, text := range files {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	record := execute(t, openIn(t, dir), "@openfn/language-x@1.0.0", "fn(() => ({ data: 3 }))")
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.Empty(t, registry.Asked())
}
