package adaptors

import (
	"context"
	_ "embed" // the frame of bundles
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/phxworker/phxworker/runner/compile"
	"github.com/phxworker/phxworker/runner/npm/resolve"
)

// bundleFrame is what stands around the code of a bundle: an expression, a function of require, __dirname and
// import that returns an array with the namespace of each entry. ES modules are strict code and
// CommonJS modules mostly are not, so there are two parts in it.
//
//go:embed scripts/bundle.js
var bundleFrame string

// oldestNode is the first version of Node that bundles are for.
const oldestNode = "20.20"

// mostBundled is how many bytes of code are bundled at most, for esbuild takes some ten times as much memory.
const mostBundled = 32 << 20

// mostNested is how many tokens deep code nests at most: a stack that overflows would end this process, and esbuild takes time by
// the square. What is published has some 2,000.
const mostNested = 5_000

// unbundleable is why a bundle cannot be made, now or later.
type unbundleable string

func (e unbundleable) Error() string { return string(e) }

// A bundler makes one file of modules and all that they depend on, with esbuild. Paths are those of
// the tree; in the bundle they are relative to root, the folder that has of the tree what Node is to find.
type bundler struct {
	tree    fs.FS
	toRoot  string   // from the bundle
	entries []string // paths of modules
	trusted bool     // OpenFn's runtime, which imports by absolute path and its own name only

	// outside are the folders of packages that are left to Node.
	outside map[string]bool

	// namesKnown tells that what the entries export is in their text: they are ES modules, and hand on no names of CommonJS
	// modules that they do not say.
	namesKnown bool

	resolver *resolve.Resolver

	mu       sync.Mutex // esbuild asks from several goroutines; guards what follows
	commonJS []string   // modules that ES modules import
	files    map[string]bool
	beside   map[string]bool            // folders of packages whose files look for others, with whether for packages, too
	imported map[string]map[string]bool // folders of packages, by that of the package that imports of them, in the build at hand
	size     int
	failure  error
}

// What a file loads is not known if esbuild says one of these.
var unknowable = []string{"unsupported-require-call", "unsupported-dynamic-import", "indirect-require", "require-resolve-not-external"}

// bundle returns the code. The error is [unbundleable], or why ctx ended.
func (b *bundler) bundle(ctx context.Context) (string, error) {
	b.resolver = resolve.New(b.tree)
	b.outside, b.files, b.beside = make(map[string]bool), make(map[string]bool), make(map[string]bool)
	var entry strings.Builder
	for i, file := range b.entries {
		fmt.Fprintf(&entry, "export * as m%d from %s;\n", i, quote("./"+file))
	}
	modern, err := b.build(ctx, true, "entry.mjs", entry.String())
	if err != nil {
		return "", err
	}
	if bad := modern.unknown; len(bad) > 0 {
		return "", unbundleable(strings.Join(bad, ", ") + " loads what is not known beforehand")
	}
	b.namesKnown = !strings.Contains(modern.code, reExport)
	for _, file := range b.entries {
		b.namesKnown = b.namesKnown && b.isESModule(file)
	}
	for {
		var all strings.Builder
		for _, file := range b.commonJS {
			fmt.Fprintf(&all, "() => require(%s),\n", quote("./"+file))
		}
		old, err := b.build(ctx, false, "commonjs.cjs", "module.exports = [\n"+all.String()+"];")
		if err != nil {
			return "", err
		}
		if len(old.unknown) == 0 {
			return b.compose(modern.code, old.code), nil
		}
		if err := b.leaveOut(old); err != nil {
			return "", err
		}
	}
}

// built is what esbuild has made.
type built struct {
	code    string
	unknown []string // files of which it is not known what they load
}

func (b *bundler) build(ctx context.Context, strict bool, name, contents string) (built, error) {
	overrides := make(map[string]api.LogLevel)
	for _, id := range unknowable {
		overrides[id] = api.LogLevelWarning
	}
	b.imported = make(map[string]map[string]bool)
	build, failed := api.Context(api.BuildOptions{
		AbsWorkingDir: "/", Bundle: true, Outfile: "/bundle.js",
		Stdin:  &api.StdinOptions{Contents: contents, ResolveDir: "/", Sourcefile: name},
		Format: api.FormatCommonJS, Platform: api.PlatformNode,
		Engines:   []api.Engine{{Name: api.EngineNode, Version: oldestNode}},
		Supported: map[string]bool{"dynamic-import": false}, // Node 20 has none in a script that came from a code cache
		Define:    map[string]string{"__dirname": "__phx_place.dirname", "__filename": "__phx_place.filename", "import.meta": "__phx_place"},
		Charset:   api.CharsetASCII, LegalComments: api.LegalCommentsNone,
		MinifyWhitespace: true, LineLimit: 200, // the indentation of what nests deeply takes memory by the square
		LogLevel: api.LogLevelSilent, LogOverride: overrides,
		Plugins: []api.Plugin{{Name: "tree", Setup: func(build api.PluginBuild) { b.plug(build, strict) }}},
	})
	if failed != nil {
		return built{}, told(failed.Errors)
	}
	done := make(chan api.BuildResult, 1)
	go func() {
		done <- build.Rebuild()
		build.Dispose()
	}()
	var result api.BuildResult
	select {
	case result = <-done:
	case <-ctx.Done():
		go build.Cancel() // it waits until the file is read that esbuild is at
		return built{}, context.Cause(ctx)
	}
	if err := b.failed(); err != nil {
		return built{}, err
	}
	if len(result.Errors) > 0 {
		return built{}, told(result.Errors)
	}
	made := built{code: string(result.OutputFiles[0].Contents)}
	if !b.trusted {
		for _, w := range result.Warnings {
			if slices.Contains(unknowable, w.ID) && w.Location != nil && !slices.Contains(made.unknown, w.Location.File) {
				made.unknown = append(made.unknown, w.Location.File)
			}
		}
	}
	return made, nil
}

// told makes an error of those of esbuild, which are about the text of modules.
func told(errs []api.Message) error {
	var lines []string
	for _, e := range errs {
		at := ""
		if e.Location != nil {
			at = e.Location.File + ": "
		}
		lines = append(lines, at+e.Text)
	}
	return unbundleable(strings.Join(lines, "; "))
}

// plug has esbuild read from the tree, and nothing from the disk.
func (b *bundler) plug(build api.PluginBuild, strict bool) {
	build.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		return b.resolve(a, strict)
	})
	build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "file"}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		return b.load(strings.TrimPrefix(a.Path, "/"))
	})
}

// resolve decides where an import leads.
func (b *bundler) resolve(a api.OnResolveArgs, strict bool) (api.OnResolveResult, error) {
	external := api.OnResolveResult{Path: a.Path, External: true}
	if isBuiltin(a.Path) {
		if strict {
			external.Path = nodePrefix + a.Path
		}
		return external, nil
	}
	importer := strings.TrimPrefix(a.Importer, "/")
	from := path.Dir(importer)
	relative := strings.HasPrefix(a.Path, "./") || strings.HasPrefix(a.Path, "../") || a.Path == "." || a.Path == ".."
	if path.IsAbs(a.Path) || relative && !fs.ValidPath(path.Join(from, a.Path)) { // jobs may read the bundle, and nothing that is not of the tree
		return external, b.fail(unbundleable(fmt.Sprintf("%s imports %s, which is outside of its folder", importer, a.Path)))
	}
	conditions := []string{"node", "require"}
	if a.Kind == api.ResolveJSImportStatement || a.Kind == api.ResolveJSDynamicImport {
		conditions[1] = "import"
	}
	found, err := b.resolver.Find(a.Path, from, conditions)
	switch {
	case err != nil && relative: // not what is beside the bundle
		external.Path = b.toRoot + "/" + path.Join(from, a.Path)
		return external, nil
	case err != nil:
		return external, nil //nolint:nilerr // it may be optional; if not, it fails as without a bundle
	}
	b.imports(resolve.Folder(importer), resolve.Folder(found))
	result := api.OnResolveResult{Path: "/" + found, Namespace: "file"}
	if b.manifestOf(found).SideEffects == false { // its modules need not be loaded if nothing of them is used
		result.SideEffects = api.SideEffectsFalse
	}
	if strict && b.isCommonJS(found) {
		result.Path, result.Namespace, result.External = b.later(found), "", true
		return result, nil
	}
	if path.Ext(found) == ".node" || b.outside[resolve.Folder(found)] {
		if !b.isCommonJS(found) {
			return external, b.fail(unbundleable(found + " is an ES module of a package that cannot be bundled"))
		}
		b.needs(found, true)
		return api.OnResolveResult{Path: b.toRoot + "/" + found, External: true}, nil
	}
	return result, nil
}

// imports notes that a package imports of another.
func (b *bundler) imports(from, of string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.imported[from] == nil {
		b.imported[from] = make(map[string]bool)
	}
	b.imported[from][of] = true
}

// fail remembers why no bundle can be made, which esbuild would tell in words of its own.
func (b *bundler) fail(err error) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.failure == nil {
		b.failure = err
	}
	return err
}

func (b *bundler) failed() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.failure
}

// later returns the name by which ES modules get a CommonJS module.
func (b *bundler) later(file string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	i := slices.Index(b.commonJS, file)
	if i < 0 {
		i = len(b.commonJS)
		b.commonJS = append(b.commonJS, file)
	}
	return fmt.Sprintf("phx:%d", i)
}

// needs notes that Node is to find the package of a file, and what that depends on if packages are looked for.
func (b *bundler) needs(file string, packages bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	dir := resolve.Folder(file)
	b.beside[dir] = b.beside[dir] || packages
}

var (
	shebang   = regexp.MustCompile(`^#!.*`)
	importing = regexp.MustCompile(`\bimport\(`)
	dynamic   = regexp.MustCompile(`import\s*\(`) // begins with a word, which is found fast
	// hidden is code in a string that imports, a habit of compilers to CommonJS.
	hidden = regexp.MustCompile(`\b(?:Function|eval)\s*\([^)]*\bimport\s*\(`)
	// places are what tells a file where it lies.
	places    = []string{"__dirname", "__filename", "import.meta"}
	directive = regexp.MustCompile(`^(?:\s|//.*|/\*(?s:.*?)\*/)*(?:"use strict"|'use strict')`)
	byPlace   = regexp.MustCompile(`\bcreateRequire\b|\bimport\.meta\.resolve\b`)
	isJSFile  = regexp.MustCompile(`\.[cm]?js$`)
)

// load returns the text of a file. Files find those beside them where they are for Node.
func (b *bundler) load(file string) (api.OnLoadResult, error) {
	raw, err := fs.ReadFile(b.tree, file)
	if err != nil {
		return api.OnLoadResult{}, b.fail(err)
	}
	text := string(raw)
	b.mu.Lock()
	if !b.files[file] {
		b.files[file] = true
		b.size += len(text)
	}
	tooLarge := b.size > mostBundled
	b.mu.Unlock()
	if tooLarge {
		return api.OnLoadResult{}, b.fail(unbundleable(fmt.Sprintf("its code is over %d MB", mostBundled>>20)))
	}
	if !isJSFile.MatchString(file) {
		return api.OnLoadResult{Contents: &text, Loader: api.LoaderDefault}, nil
	}
	if compile.Depth(text) > mostNested {
		return api.OnLoadResult{}, b.fail(unbundleable(file + " nests too deeply"))
	}
	text = shebang.ReplaceAllLiteralString(text, "")
	if b.trusted && slices.Contains(b.entries, file) { // what OpenFn's runtime imports is not known beforehand, so that is handed in
		text = importing.ReplaceAllLiteralString(text, "__phx_import(")
	}
	var warnings []api.Message
	if dynamic.MatchString(text) && hidden.MatchString(text) {
		warnings = []api.Message{{ID: unknowable[0], Text: "an import in a text", Location: &api.Location{File: file}}}
	}
	if hasPlace(text) {
		b.needs(file, byPlace.MatchString(text) && !b.trusted)
		strict := ""
		if directive.MatchString(text) {
			strict = `"use strict";`
		}
		text = strict + "var __phx_place = __phx_placeOf(" + quote(file) + ");" + text
	}
	return api.OnLoadResult{Contents: &text, Loader: api.LoaderJS, Warnings: warnings}, nil
}

func hasPlace(text string) bool {
	return slices.ContainsFunc(places, func(place string) bool { return strings.Contains(text, place) })
}

// leaveOut puts the packages of files that are not known outside, with all they depend on: no
// module may be loaded twice, once by Node and once from the bundle.
func (b *bundler) leaveOut(from built) error {
	var found []string
	for _, file := range from.unknown {
		found = append(found, resolve.Folder(file))
	}
	for len(found) > 0 {
		dir := found[len(found)-1]
		found = found[:len(found)-1]
		if b.outside[dir] {
			continue
		}
		b.outside[dir] = true
		found = append(found, b.dependencies(dir)...)
		found = slices.AppendSeq(found, maps.Keys(b.imported[dir]))
	}
	for _, entry := range b.entries {
		if b.outside[resolve.Folder(entry)] {
			return unbundleable(strings.Join(from.unknown, ", ") + " loads what is not known beforehand")
		}
	}
	return nil
}

// folders are those of packages that Node is to find: each that was left to it, or looks for files, and all that these load.
func (b *bundler) folders() []string {
	all := maps.Clone(b.outside)
	var more []string
	for dir, packages := range b.beside {
		all[dir] = true
		if packages {
			more = append(more, b.dependencies(dir)...)
		}
	}
	for len(more) > 0 {
		dir := more[len(more)-1]
		more = more[:len(more)-1]
		if !all[dir] {
			all[dir] = true
			more = append(more, b.dependencies(dir)...)
		}
	}
	return slices.Sorted(maps.Keys(all))
}

// nodePrefix is before the names of what is Node's own until a bundle is composed, so that no text of a package is taken for an import.
const nodePrefix = "phx:node:"

// reExport is in code of esbuild's if names are handed on of which it knows none (export * from a CommonJS module).
const reExport = "__reExport("

var (
	// fromCommonJS is an import of a CommonJS module in what esbuild has made of ES modules.
	fromCommonJS = regexp.MustCompile(`__toESM\(require\("phx:(\d+)"\)\)`)
	declaration  = regexp.MustCompile(`var ([\w$]+)=((?:__toESM\()?require\("(phx:[^"]+)"\)(?:(?:,1)?\))?);`)
)

func (b *bundler) compose(modern, old string) string {
	modern = fromCommonJS.ReplaceAllString(modern, `__toESM(require("phx:$1"),1)`) // all who import here are ES modules
	modern = strings.ReplaceAll(b.declareAll(modern), `require("`+nodePrefix, `require("`)
	var modules []string
	for i := range b.entries {
		modules = append(modules, fmt.Sprintf("module.exports.m%d", i))
	}
	return strings.NewReplacer("/*toRoot*/", quote(b.toRoot), "/*commonjs*/", old, "/*modern*/", modern, "/*modules*/", strings.Join(modules, ", ")).Replace(bundleFrame)
}

// declareAll declares what ES modules import in ways that cost less than those of esbuild, and that nobody can tell from them.
func (b *bundler) declareAll(code string) string {
	used := make(uses)
	for _, parts := range declaration.FindAllStringSubmatch(code, -1) {
		used[parts[1]] = &use{}
	}
	used.count(code, 1)
	return declaration.ReplaceAllStringFunc(code, func(declared string) string {
		used.count(declared, -1)
		parts := declaration.FindStringSubmatch(declared)
		return b.declare(parts[1], parts[2], parts[3], *used[parts[1]])
	})
}

// declare declares the name of a module that has this value and these uses.
func (b *bundler) declare(name, value, module string, used use) string {
	builtin, outside := strings.CutPrefix(module, nodePrefix)
	ofBundle, ofNode := !outside, outside && slices.Contains(builtins, strings.TrimPrefix(builtin, "node:"))
	if (ofBundle || ofNode) && strings.HasPrefix(value, "__toESM(") && used.defaults == used.all { // of which a copy with all members is made
		value = "{default:require(" + quote(module) + ")}"
	}
	i, _ := strconv.Atoi(strings.TrimPrefix(module, "phx:"))
	late := ofNode || ofBundle && b.manifestOf(b.commonJS[i]).Name == lateName
	if late && used.members == used.all { // nobody holds what stands in for it
		return fmt.Sprintf("var %[1]s=__phx_later(() => (%[2]s), (loaded) => { %[1]s = loaded; });", name, value)
	}
	return "var " + name + "=" + value + ";"
}

// lateName is a package that ES modules get when they first read something of it, as they get what is Node's own. Loading undici is most
// of what loading language-common costs, and Node's crypto a sixth of the rest; neither has an effect that anyone sees but through it.
const lateName = "undici"

// uses are names of a code, and how often it has them.
type uses map[string]*use

type use struct {
	all, members, defaults int // followed by anything, by the name of a member, by that of the member default
}

// count adds those of a code, each so often. A word in a text counts as well.
func (u uses) count(code string, times int) {
	for at := 0; at < len(code); at++ {
		end := at
		for end < len(code) && isWord(code[end]) {
			end++
		}
		if use := u[code[at:end]]; use != nil {
			use.all += times
			if rest := code[end:]; strings.HasPrefix(rest, ".") {
				use.members += times
				if member, ok := strings.CutPrefix(rest, ".default"); ok && (member == "" || !isWord(member[0])) {
					use.defaults += times
				}
			}
		}
		at = end
	}
}

func isWord(c byte) bool {
	return c == '_' || c == '$' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
}
