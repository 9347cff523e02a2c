package adaptors

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/npmtest"
	"github.com/phxworker/phxworker/internal/runtest"
)

// files are a package and what it depends on, by the paths of files below node_modules.
type files map[string]string

// publish publishes the files as a version of x, which depends on all the others.
func publish(t *testing.T, w *npmtest.Registry, version string, files files) {
	t.Helper()
	needs := make(map[string]string)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		name, _, _ = strings.Cut(name, "/")
		if _, done := needs[name]; done || name == "x" {
			continue
		}
		needs[name] = version
		publishOne(t, w, name, version, files, nil)
	}
	publishOne(t, w, "x", version, files, needs)
}

func publishOne(t *testing.T, w *npmtest.Registry, name, version string, files files, needs map[string]string) {
	t.Helper()
	manifest := map[string]any{}
	if text := files[name+"/package.json"]; text != "" {
		require.NoError(t, json.Unmarshal([]byte(text), &manifest))
	}
	manifest["name"] = name
	if manifest["version"] == nil || name == "x" {
		manifest["version"] = version
	}
	if needs != nil {
		manifest["dependencies"] = needs
	}
	text, err := json.Marshal(manifest)
	require.NoError(t, err)
	archive := []string{"package/package.json", string(text)}
	for path, content := range files {
		if rest, ok := strings.CutPrefix(path, name+"/"); ok && rest != "package.json" {
			archive = append(archive, "package/"+rest, content)
		}
	}
	if name != "x" {
		delete(manifest, "dependencies") // which are there anyway, and count for the bundle alone
	}
	manifest["version"] = version
	registered, err := json.Marshal(manifest)
	require.NoError(t, err)
	w.PublishArchive(t, name, version, string(registered), npmtest.Archive(t, archive...))
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
	needNode(t)
	w := npmtest.Serve(t)
	w.Use(t)
	r := open(t, Config{})
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
			name: "the default of CommonJS that was an ES module",
			files: files{
				"x/package.json": esmPackage,
				"x/index.js":     `import dep from "dep"; import dep2 from "dep"; export const a = dep.default, b = dep.named, c = dep === dep2, d = typeof dep.default.default; dep.late = 5; export const e = dep2.late;`,
				"dep/index.js":   `Object.defineProperty(exports, "__esModule", { value: true }); exports.default = 2; exports.named = 3;`,
			},
			want: `{"a":2,"b":3,"c":true,"d":"undefined","e":5}`,
		},
		{
			name: "texts that look like imports",
			files: files{
				"x/package.json": esmPackage,
				"x/index.js":     `import fs from "fs"; export const a = 'var fs=require("fs");fs.x()'; export const b = 'var x=__toESM(require("dep"));'; export const c = typeof fs.readFileSync;`,
			},
			want: `{"a":"var fs=require(\"fs\");fs.x()","b":"var x=__toESM(require(\"dep\"));","c":"function"}`,
		},
		{
			name: "names of its own",
			files: files{
				"x/package.json":   `{"name":"x","version":"1.0.0","type":"module","exports":{".":"./index.js","./below/*":"./lib/*.js"},"imports":{"#a":"./lib/a.js","#dep":"dep","#n/*":{"browser":"./no.js","node":"./lib/*.js"}}}`,
				"x/index.js":       `import a from "#a"; import dep from "#dep"; import n from "#n/n"; import own from "x/below/own"; export { a, dep, n, own };`,
				"x/lib/a.js":       `export default 1`,
				"x/lib/n.js":       `export default 2`,
				"x/lib/own.js":     `export default 3`,
				"dep/index.js":     `module.exports = require("dep/below")`,
				"dep/below.js":     `module.exports = 4`,
				"dep/package.json": `{"name":"dep","exports":{".":"./index.js","./below":"./below.js"}}`,
			},
			want: `{"a":1,"dep":4,"n":2,"own":3}`,
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
			s := specifier{"x", fmt.Sprintf("1.0.%d", i)}
			publish(t, w, s.version, tt.files)
			p, err := r.Resolve(t.Context(), s.String(), nil)
			require.NoError(t, err)
			known, _, err := readPrepared(r.preparedFolder(s), s)
			require.NoError(t, err)
			require.Equal(t, tt.unbundled, known.Reason)
			require.Equal(t, tt.unbundled == "", p.Bundled)
			published := t.TempDir()
			for path, text := range tt.files {
				require.NoError(t, writeFile(filepath.Join(published, "node_modules", path), []byte(text)))
			}
			original, err := readPackage(npmFolder(published, s.name))
			require.NoError(t, err)
			require.JSONEq(t, tt.want, evaluate(t, original.Entry), "as it was published")
			require.JSONEq(t, tt.want, evaluate(t, p.Entry), "as Resolve returned it")
			require.NoError(t, r.WarmCache(t.Context(), "node", nil, p))
			require.JSONEq(t, tt.want, evaluate(t, p.Entry), "from the code cache")
		})
	}
}

// What is Node's own is loaded when something of it is first read, and at once where somebody could hold what stands in for it.
func TestNodesModulesAreLoadedLate(t *testing.T) {
	needNode(t)
	w := npmtest.Serve(t)
	w.Use(t)
	r := open(t, Config{})
	const told = ` const loaded = () => process.moduleLoadList.includes("NativeModule zlib"); export const a = () => loaded(); export const c = () => loaded();`
	tests := []struct{ name, code, want string }{
		{"a member", `import { crc32, inflateSync, deflateSync } from "zlib"; export const b = () => String(inflateSync(deflateSync("x")));`, `{"a":false,"b":"x","c":true}`},
		{"the default", `import zlib from "node:zlib"; export const b = () => String(zlib.inflateSync(zlib.deflateSync("x")));`, `{"a":false,"b":"x","c":true}`},
		{"a namespace", `import * as $z from "node:zlib"; export const b = () => typeof $z.inflateSync + typeof $z.default.inflateSync;`, `{"a":false,"b":"functionfunction","c":true}`},
		{"a default that is handed on", `import zlib from "node:zlib"; const all = { zlib }; export const b = () => typeof all.zlib.inflateSync;`, `{"a":true,"b":"function","c":true}`},
		{"a namespace that is handed on", `import * as zlib from "node:zlib"; export const b = () => Object.keys(zlib).includes("inflateSync");`, `{"a":true,"b":true,"c":true}`},
		{"a class that is extended", `import { Gunzip } from "zlib"; class Ours extends Gunzip {} export const b = () => new Ours() instanceof Gunzip;`, `{"a":true,"b":true,"c":true}`},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			version := fmt.Sprintf("1.0.%d", i)
			publish(t, w, version, files{"x/package.json": esmPackage, "x/index.js": tt.code + told})
			p, err := r.Resolve(t.Context(), "x@"+version, nil)
			require.NoError(t, err)
			require.True(t, p.Bundled)
			require.JSONEq(t, tt.want, evaluate(t, p.Entry))
		})
	}
}

// undici is loaded when something of it is first read, once, and at once where somebody could hold what stands in for it.
func TestUndiciIsLoadedLate(t *testing.T) {
	needNode(t)
	w := npmtest.Serve(t)
	w.Use(t)
	r := open(t, Config{})
	undici := `globalThis.loads = (globalThis.loads ?? 0) + 1; exports.request = () => "asked"; exports.Agent = class { name = "agent" };`
	const told = `export const a = () => globalThis.loads ?? 0; export const c = () => globalThis.loads;`
	tests := []struct{ name, code, want string }{
		{"members", `import { request, Agent } from "undici"; import again from "./again.js"; export const b = () => request() + " by " + new Agent().name + again();` + told, `{"a":0,"b":"asked by agent, asked","c":1}`},
		{"a class of it", `import { Agent } from "undici"; class Ours extends Agent {} export const b = () => new Ours().name;` + told, `{"a":1,"b":"agent","c":1}`},
		{"all of it", `import * as undici from "undici"; export const b = () => Object.keys(undici).filter(name => name !== "module.exports").length;` + told, `{"a":1,"b":3,"c":1}`},
		{"all of it, by a name without letters", `import * as $ from "undici"; export const b = () => Object.keys($).filter(name => name !== "module.exports").length;` + told, `{"a":1,"b":3,"c":1}`},
		{"handed on", `export { request as b } from "undici";` + told, `{"a":1,"b":"asked","c":1}`},
		{"what throws", `import { request } from "undici"; export const b = () => { try { return request.missing.member } catch (e) { return e.message } };` + told, `{"a":0,"b":"Cannot read properties of undefined (reading 'member')","c":1}`},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			version := fmt.Sprintf("1.0.%d", i)
			publish(t, w, version, files{"x/package.json": esmPackage, "x/index.js": tt.code, "x/again.js": `import undici from "undici"; export default () => ", " + undici.request();`, "undici/index.js": undici})
			p, err := r.Resolve(t.Context(), "x@"+version, nil)
			require.NoError(t, err)
			require.True(t, p.Bundled)
			require.JSONEq(t, tt.want, evaluate(t, p.Entry))
		})
	}
}

// The names of an ES module are in its text: the module is not loaded beside its bundle, which takes longer than all else of an
// install. It is where they are not, and where the bundle has nothing under one of them.
func TestWhatAnESModuleExportsIsAskedOfItsBundle(t *testing.T) {
	needNode(t)
	w := npmtest.Serve(t)
	w.Use(t)
	node, err := exec.LookPath("node")
	require.NoError(t, err)
	bin, told := t.TempDir(), filepath.Join(t.TempDir(), "told")
	require.NoError(t, os.WriteFile(filepath.Join(bin, "node"), []byte("#!/bin/sh\nfor last; do :; done\necho \"$last\" >>"+told+"\nexec "+node+" \"$@\"\n"), 0o755))
	t.Setenv("PATH", bin+string(os.PathListSeparator)+os.Getenv("PATH"))
	r := open(t, Config{})
	const dep = `exports.a = 1; exports.b = 2;`
	tests := []struct {
		name    string
		files   files
		loaded  bool // as it was published
		exports []string
	}{
		{"its own names", files{"x/index.js": `import dep, { b } from "dep"; export const a = dep.a; export { b as "odd name" }; export default 3; export * as d from "dep";`, "dep/index.js": dep}, false, []string{"a", "d", "default", "odd name"}},
		{"those of another ES module", files{"x/index.js": `export * from "./b.js";`, "x/b.js": `export const b = 1; export default 2;`}, false, []string{"b"}},
		{"those of CommonJS", files{"x/index.js": `export * from "dep";`, "dep/index.js": dep}, true, []string{"a", "b"}},
		{"those of a builtin", files{"x/index.js": `export * from "node:querystring";`}, true, []string{"decode", "encode", "escape", "parse", "stringify", "unescape", "unescapeBuffer"}},
		{"CommonJS", files{"x/package.json": cjsPackage, "x/index.js": dep}, true, []string{"a", "b", "default"}},
		{"a name without a value", files{"x/index.js": `export let a; export const b = 1;`}, true, []string{"a", "b"}},
	}
	for i, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.NoError(t, os.RemoveAll(told))
			version := fmt.Sprintf("1.0.%d", i)
			if tt.files["x/package.json"] == "" {
				tt.files["x/package.json"] = esmPackage
			}
			publish(t, w, version, tt.files)
			p, err := r.Resolve(t.Context(), "x@"+version, nil)
			require.NoError(t, err)
			require.True(t, p.Bundled)
			p.Exports = slices.DeleteFunc(p.Exports, func(name string) bool { return name == "module.exports" }) // Node 23 has it for CommonJS
			require.Equal(t, tt.exports, p.Exports)
			asked, err := os.ReadFile(told)
			require.NoError(t, err)
			require.Equal(t, tt.loaded, strings.Contains(string(asked), originalFolder), string(asked))
		})
	}
}

// What Node cannot load is told in its words.
func TestWhatNodeCannotLoadIsTold(t *testing.T) {
	needNode(t)
	w := npmtest.Serve(t)
	w.Use(t)
	r := open(t, Config{})
	for i, tt := range []struct {
		files   files
		problem string
	}{
		{files{"x/package.json": esmPackage, "x/index.js": `import gone from "gone"; export const a = 1;`}, "Cannot find package 'gone'"},
		{files{"x/package.json": esmPackage, "x/index.js": `throw new Error("it has no home"); export const a = 1;`}, "it has no home"},
	} {
		version := fmt.Sprintf("1.0.%d", i)
		publish(t, w, version, tt.files)
		p, err := r.Resolve(t.Context(), "x@"+version, nil)
		require.NoError(t, err)
		require.False(t, p.Bundled)
		require.Contains(t, p.Problem, tt.problem)
	}
}

// The process that asks a bundle what it exports makes its code cache as well, for the flags that V8 will have: none is started for it.
func TestWhatIsInstalledHasItsCodeCache(t *testing.T) {
	needNode(t)
	w := npmtest.Serve(t)
	w.Use(t)
	publish(t, w, "1.0.0", files{"x/package.json": esmPackage, "x/index.js": `export const a = 1;`})
	publish(t, w, "2.0.0", files{"x/package.json": cjsPackage, "x/index.js": `exports.a = 1;`})
	for _, version := range []string{"1.0.0", "2.0.0"} {
		for _, heap := range []string{"--max-old-space-size=300", "--max-old-space-size=400"} { // from the same cache of packages
			for range 2 {
				r := open(t, Config{Flags: []string{heap}})
				p, err := r.Resolve(t.Context(), "x@"+version, nil)
				require.NoError(t, err)
				require.True(t, p.Bundled)
				answer, err := script{
					node: "node", flags: append(hostFlags(t, p), heap), args: []string{p.Dir},
					code: `
						import { writeSync } from 'node:fs';
						import { createRequire } from 'node:module';
						const bundle = createRequire(import.meta.url)(process.argv[2] + '/load.cjs');
						writeSync(3, String(bundle.load()[0].a === 1 && bundle.missingCache() === undefined));
					`,
				}.run(t.Context())
				require.NoError(t, err)
				require.Equal(t, "true", string(answer))
				require.NoError(t, r.WarmCache(t.Context(), "node-that-is-not-there", []string{"--no-warnings", heap}, p), "nothing to do")
				require.Error(t, r.WarmCache(t.Context(), "node-that-is-not-there", nil, p), "other flags")
			}
		}
	}
}
