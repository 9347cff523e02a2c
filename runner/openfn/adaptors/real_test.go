package adaptors

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/npmtest"
)

const (
	common = "@openfn/language-common@3.3.4"
	http   = "@openfn/language-http@7.2.10"
)

// hostFlags are those of a process that runs jobs, which may read the packages
// alone: not what npm installed.
func hostFlags(t testing.TB, packages ...Package) []string {
	t.Helper()
	permission := "--permission"
	if err := exec.CommandContext(t.Context(), "node", permission, "-e", "").Run(); err != nil {
		permission = "--experimental-permission"
	}
	flags := []string{"--experimental-vm-modules", "--no-warnings", permission}
	for _, p := range packages {
		flags = append(flags, "--allow-fs-read="+filepath.Join(p.Dir, "*"))
	}
	return flags
}

func TestTheRuntimeRunsJobsWithBundles(t *testing.T) {
	r := shared(t)
	runtime, logger, err := r.Runtime(t.Context(), nil)
	require.NoError(t, err)
	require.True(t, runtime.Bundled)
	require.Equal(t, "1.9.5", runtime.Version)
	require.Equal(t, "@openfn/logger", logger.Name)
	require.Contains(t, runtime.Exports, "default")
	adaptor, err := r.Resolve(t.Context(), common, nil)
	require.NoError(t, err)
	require.True(t, adaptor.Bundled)
	require.Contains(t, adaptor.Dir, "/node_modules/@openfn/language-common")

	flags := hostFlags(t, runtime, logger, adaptor)
	runJob := func(t *testing.T) {
		answer, err := script{
			node: "node", flags: flags, args: []string{runtime.Entry, logger.Entry, adaptor.Entry, adaptor.Dir},
			code: `
				import { writeSync } from 'node:fs';
				const [runtime, logger, common] = await Promise.all(process.argv.slice(2, 5).map(path => import(path)));
				const expression = "import { fn } from '@openfn/language-common'; import { defer } from '@openfn/runtime';" +
					"export default [fn(state => ({ ...state, defer: typeof defer }))]";
				const linker = { '@openfn/language-common': { path: process.argv[5], version: '3.3.4' } };
				const state = await runtime.default({ workflow: { steps: [{ id: 'a', expression, linker }] }, options: {} }, { data: 1 }, {
					disableEsmHook: true, linker: { whitelist: [/^@openfn/] }, logger: logger.createMockLogger(),
				});
				let stack;
				try { await common.each(null, state => state)({}) } catch (error) { stack = error.stack }
				writeSync(3, JSON.stringify({ state, stack }));
			`,
		}.run(t.Context())
		require.NoError(t, err)
		var told struct {
			State json.RawMessage
			Stack string
		}
		require.NoError(t, json.Unmarshal(answer, &told))
		require.JSONEq(t, `{"data":1,"defer":"function"}`, string(told.State))
		require.Contains(t, told.Stack, "node_modules/@openfn/language-common/"+bundleFile)
	}
	t.Run("without code caches", runJob)
	require.NoError(t, r.WarmCache(t.Context(), "node", flags, runtime, adaptor))
	t.Run("with code caches", runJob) // Node 20 has no import() in what comes from one
}

func TestExportsAreThoseOfThePackage(t *testing.T) {
	r := shared(t)
	for _, specifier := range []string{common, http} {
		p, err := r.Resolve(t.Context(), specifier, nil)
		require.NoError(t, err)
		require.True(t, p.Bundled)
		for _, entry := range []string{asPublished(t, p).Entry, p.Entry} {
			answer, err := script{
				node: "node", args: []string{entry},
				code: "import { writeSync } from 'node:fs'; writeSync(3, Object.keys(await import(process.argv[2])).sort().join(' '))",
			}.run(t.Context())
			require.NoError(t, err)
			require.Equal(t, strings.Join(p.Exports, " "), string(answer))
		}
	}
}

// asPublished returns a package in a folder with all files of it and of what it needs.
func asPublished(t testing.TB, p Package) Package {
	t.Helper()
	c, err := open(t, Config{}).client(t.Context(), specifier{p.Name, p.Version})
	require.NoError(t, err)
	defer c.Close()
	files, err := c.Files(t.Context(), p.Name, p.Version)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.CopyFS(dir, files))
	p, err = readPackage(npmFolder(dir, p.Name))
	require.NoError(t, err)
	return p
}

func TestTheRegistrySaysWhatItLacks(t *testing.T) {
	r := shared(t)
	_, err := r.Resolve(t.Context(), "@openfn/language-common@99.99.99", nil)
	require.ErrorContains(t, err, " has no such version")
	_, err = r.Resolve(t.Context(), "@openfn/language-that-nobody-wrote@latest", nil)
	require.ErrorContains(t, err, "the registry knows no such package or version, or may not give it out: ")
}

func TestCodeCaches(t *testing.T) {
	r := copied(t, common)
	p, err := r.Resolve(t.Context(), common, nil)
	require.NoError(t, err)
	caches := func() []string {
		found, err := filepath.Glob(filepath.Join(p.Dir, "*.cache"))
		require.NoError(t, err)
		return found
	}
	clean := func() {
		for _, path := range caches() {
			require.NoError(t, os.Remove(path))
		}
	}
	clean()
	// accepted reports whether a process with the flags loads with a cache.
	accepted := func(flags ...string) bool {
		answer, err := script{
			node: "node", flags: append(hostFlags(t, p), flags...), args: []string{p.Dir},
			code: `
				import { writeSync } from 'node:fs';
				import { createRequire } from 'node:module';
				const bundle = createRequire(import.meta.url)(process.argv[2] + '/load.cjs');
				if (typeof bundle.load()[0].fn !== 'function' || bundle.load() !== bundle.load()) process.exit(1);
				writeSync(3, String(bundle.missingCache() === undefined));
			`,
		}.run(t.Context())
		require.NoError(t, err)
		return string(answer) == "true"
	}
	flags := hostFlags(t) // the repo is added
	require.False(t, accepted())
	require.NoError(t, r.WarmCache(t.Context(), "node", flags, p))
	require.True(t, accepted())
	require.False(t, accepted("--stack-size=900"), "V8 would reject it")
	require.Len(t, caches(), 1)

	require.NoError(t, os.WriteFile(caches()[0], []byte("damaged"), 0o644))
	require.False(t, accepted())
	require.NoError(t, open(t, Config{Dir: r.Dir()}).WarmCache(t.Context(), "node", flags, p))
	require.True(t, accepted(), "it is made again")
	require.Len(t, caches(), 1)

	clean()
	require.NoError(t, r.WarmCache(t.Context(), "node-that-is-not-there", nil, Package{}), "nothing to do")
	require.NoError(t, r.WarmCache(t.Context(), "node", flags, p), "nothing that was not done")
	require.Empty(t, caches())
	require.ErrorContains(t, r.WarmCache(t.Context(), "node-that-is-not-there", nil, p), "code caches were not made: ")
	require.ErrorContains(t, r.WarmCache(t.Context(), "node", []string{"--no-such-flag"}, p), "bad option")
}

func TestCachesThatAreNotBelieved(t *testing.T) {
	dir := t.TempDir()
	for _, answer := range []string{"nonsense", "\n", "x.cache\n", "../bundle-a.cache\n", "bundle-/../a.cache\n", "bundle-a.cache", "/bundle-a.cache\nx"} {
		require.ErrorIs(t, storeCache([]byte(answer), dir), errCacheAnswer, answer)
	}
	require.NoError(t, storeCache(nil, dir))
	require.Empty(t, names(t, dir))
	require.NoError(t, storeCache([]byte("bundle-a.cache\nx\ny"), dir))
	raw, err := os.ReadFile(filepath.Join(dir, "bundle-a.cache"))
	require.NoError(t, err)
	require.Equal(t, "x\ny", string(raw))
}

// Guards against a package that puts code into the cache of another one, which every run
// would execute with its credentials: it is loaded where that is made, and can answer.
func TestAPackageHasNoSayInTheCacheOfAnother(t *testing.T) {
	needNode(t)
	w := npmtest.Serve(t)
	w.Use(t)
	r := open(t, Config{})
	evil, good := specifier{"x", "6.6.6"}, specifier{"x", "6.6.7"}
	publish(t, w, evil.version, files{"x/package.json": esmPackage, "x/index.js": `
		import { writeSync } from "node:fs";
		export const a = 1;
		if (process.argv.length > 2 && process.argv[2].endsWith("load.cjs")) {
			const name = "bundle-evil.cache";
			try { writeSync(3, JSON.stringify({ index: 1, name, size: 4 }) + "\n" + "evil"); process.exit(0); } catch {}
		}
	`})
	publish(t, w, good.version, files{"x/package.json": esmPackage, "x/index.js": `export const a = 1`})
	var packages []Package
	for _, s := range []specifier{evil, good} {
		p, err := r.Resolve(t.Context(), s.String(), nil)
		require.NoError(t, err)
		require.True(t, p.Bundled)
		packages = append(packages, p)
	}
	_ = r.WarmCache(t.Context(), "node", hostFlags(t), packages...)
	found, err := filepath.Glob(filepath.Join(packages[1].Dir, "bundle-evil*"))
	require.NoError(t, err)
	require.Empty(t, found)
}
