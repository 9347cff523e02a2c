package adaptors

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
)

// files are a package, by the paths of its files and those of what it depends on,
// relative to the folder that is installed into.
type files map[string]string

// placePackage puts a package where it would be installed.
func placePackage(t *testing.T, r *Repo, s specifier, files files) {
	t.Helper()
	for path, text := range files {
		path = filepath.Join(r.folder(s), "node_modules", path)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
}

// Guards against the worker's secrets in a process that loads what npm has brought.
func TestAScriptSeesNoMoreOfTheEnvironmentThanAJob(t *testing.T) {
	runtest.Need(t, "node")
	t.Setenv("WORKER_SECRET", "hush")
	answer, err := script{node: "node", code: `import { writeSync } from 'node:fs'; writeSync(3, JSON.stringify(process.env));`}.run(t.Context())
	require.NoError(t, err)
	var seen map[string]string
	require.NoError(t, json.Unmarshal(answer, &seen))
	require.NotEmpty(t, seen["PATH"])
	for name := range seen {
		require.Contains(t, []string{"PATH", "LANG", "LC_ALL", "TZ", "__CF_USER_TEXT_ENCODING"}, name)
	}
}

// evaluate returns what a module exports, as JSON; functions are called.
func evaluate(t *testing.T, entry string) string {
	t.Helper()
	answer, err := script{node: "node", args: []string{entry}, code: `
		import { writeSync } from 'node:fs';
		const found = {};
		for (const [name, value] of Object.entries(await import(process.argv[2]))) {
			if (name !== 'module.exports') found[name] = await (typeof value === 'function' ? value() : value); // Node 23 has it for CommonJS
		}
		writeSync(3, JSON.stringify(found, (_, value) => typeof value === 'function' ? 'function' : value));
	`}.run(t.Context())
	require.NoError(t, err)
	return string(answer)
}

const (
	esmPackage = `{"name":"x","version":"1.0.0","type":"module","exports":"./index.js"}`
	cjsPackage = `{"name":"x","version":"1.0.0","main":"index.js"}`
)

// A bundle is no different from what was installed: each package is imported both
// ways and tells what it finds.
func TestABundleDoesWhatThePackageDoes(t *testing.T) {
	r := shared(t)
	tests := []struct {
		name      string
		files     files
		unbundled string // why, if so
		want      string // JSON of what the module exports; functions are called
	}{
		{
			name:  "ES module",
			files: files{"x/package.json": esmPackage, "x/index.js": `export const a = 1; export default () => 2; export { a as "odd name" };`},
			want:  `{"a":1,"default":2,"odd name":1}`,
		},
		{
			name: "CommonJS",
			files: files{
				"x/package.json": cjsPackage,
				"x/index.js":     `Object.defineProperty(exports, "__esModule", { value: true }); exports.a = 1; exports["default"] = 2;`,
			},
			want: `{"__esModule":true,"a":1,"default":{"a":1,"default":2}}`,
		},
		{
			name: "ES modules are strict, CommonJS is as it was",
			files: files{
				"x/package.json": esmPackage,
				"x/index.js":     `import old from "old"; export const a = () => old(); export function b() { return this === undefined } export const c = () => { try { Object.freeze({ p: 1 }).p = 2 } catch { return "refused" } };`,
				"old/index.js":   `module.exports = function () { undeclared = 5; return (function () { return this === globalThis && undeclared })() }`,
			},
			want: `{"a":5,"b":true,"c":"refused"}`,
		},
		{
			name: "files find those beside them",
			files: files{
				"x/package.json":   esmPackage,
				"x/index.js":       `import fs from "node:fs"; import dep from "dep"; export const a = fs.readFileSync(new URL("./data.txt", import.meta.url), "utf8"); export { dep as b };`,
				"x/data.txt":       "beside",
				"dep/package.json": `{"version":"3.0.0"}`,
				"dep/index.js":     "'use strict'\nconst fs = require('fs'); module.exports = [fs.readFileSync(__dirname + '/d.txt', 'utf8'), require('path').basename(__filename), require('./package.json').version, (function () { return this === undefined })()]",
				"dep/d.txt":        "deep",
			},
			want: `{"a":"beside","b":["deep","index.js","3.0.0",true]}`,
		},
		{
			name: "what chooses its modules stays outside, with all it needs",
			files: files{
				"x/package.json":    esmPackage,
				"x/index.js":        `import pick from "pick"; import state from "state"; state.n = 7; export const a = () => pick("./seven")();`,
				"pick/index.js":     `module.exports = name => require(name)`,
				"pick/seven.js":     `const state = require("state"); module.exports = () => state.n`,
				"pick/package.json": `{"dependencies":{"state":"*"}}`,
				"state/index.js":    `exports.n = 0`,
			},
			want: `{"a":7}`,
		},
		{
			name: "optional dependencies that are not there",
			files: files{
				"x/package.json": esmPackage,
				"x/index.js":     `import dep from "dep"; export const a = dep;`,
				"dep/index.js":   `try { require("./build/native.node") } catch { module.exports = "without" } try { require("absent") } catch (e) { module.exports += " " + e.code }`,
			},
			want: `{"a":"without MODULE_NOT_FOUND"}`,
		},
		{
			name: "imports in a text",
			files: files{
				"x/package.json": esmPackage,
				"x/index.js":     `import dep from "dep"; export const a = async () => (await dep("node:path")).sep;`,
				"dep/index.js":   `module.exports = new Function("name", "return import(name)")`,
			},
			want: `{"a":"/"}`,
		},
		{
			name:      "await at the top level",
			files:     files{"x/package.json": esmPackage, "x/index.js": `export const a = await Promise.resolve(1);`},
			unbundled: "node_modules/x/index.js: Top-level await is currently not supported with the \"cjs\" output format",
			want:      `{"a":1}`,
		},
		{
			name:      "a package that chooses its modules",
			files:     files{"x/package.json": cjsPackage, "x/index.js": `exports.a = name => require(name || "./b")`, "x/b.js": `module.exports = 3`},
			unbundled: "node_modules/x/index.js loads what is not known beforehand",
			want:      `{"a":3,"default":{"a":"function"}}`,
		},
		{
			name:      "an import that is not known",
			files:     files{"x/package.json": esmPackage, "x/index.js": `export const a = async name => (await import(name ?? "./b.js")).default`, "x/b.js": `export default 4`},
			unbundled: "node_modules/x/index.js loads what is not known beforehand",
			want:      `{"a":4}`,
		},
		{
			name: "imports while it runs",
			files: files{
				"x/package.json": esmPackage,
				"x/index.js":     `export const a = async () => (await import("dep")).default; export const b = async () => (await import("./late.js")).default; export const c = async () => [(await import("node:path")).sep, (await import("path")).default.sep];`,
				"x/late.js":      `export default "late"`,
				"dep/index.js":   `module.exports = async () => 1`,
			},
			want: `{"a":"function","b":"late","c":["/","/"]}`,
		},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := specifier{"x", fmt.Sprintf("1.0.%d", i)} // where another one is does not matter
			placePackage(t, r, s, tt.files)
			p, err := r.Resolve(t.Context(), s.String(), nil)
			require.NoError(t, err)
			var known prepared
			raw, err := os.ReadFile(filepath.Join(r.preparedFolder(s), preparedFile))
			require.NoError(t, err)
			require.NoError(t, json.Unmarshal(raw, &known))
			require.Equal(t, tt.unbundled, known.Reason)
			require.Equal(t, tt.unbundled == "", p.Bundled)
			npm, err := readPackage(npmFolder(r.folder(s), s.name))
			require.NoError(t, err)
			require.JSONEq(t, tt.want, evaluate(t, npm.Entry), "as it was installed")
			require.JSONEq(t, tt.want, evaluate(t, p.Entry), "as Resolve returned it")
			require.NoError(t, r.WarmCache(t.Context(), "node", nil, p))
			require.JSONEq(t, tt.want, evaluate(t, p.Entry), "from the code cache")
		})
	}
}
