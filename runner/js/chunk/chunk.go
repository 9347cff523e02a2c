package chunk

import (
	"cmp"
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/phxworker/phxworker/runner/npm/resolve"
)

//go:embed node/*.js
var ours embed.FS

// builtins are Node's, and those of ours on which others are built, which begin with _. Those with a package are that; what
// is there beside node/*.js.
var builtins = map[string]string{
	"assert": "assert/", "buffer": "", "events": "", "path": "path-browserify", "punycode": "punycode/", "querystring": "",
	"stream": "", "string_decoder": "string_decoder/", "url": "", "util": "",
	"undici": "", "_web": "", "_wire": "", "_http": "", "_http_names": "", "_fetch": "", "_mock": "", "_missing": "", "_received": "",
	"crypto": "", "os": "", "process": "", "timers": "", "perf_hooks": "", "fs": "", "http": "", "https": "", "net": "", "tls": "", "zlib": "", "child_process": "",
	"dns": "", "worker_threads": "", "vm": "", "v8": "", "tty": "", "http2": "", "async_hooks": "", "diagnostics_channel": "", "console": "", "module": "", "constants": "",
	"dgram": "", "cluster": "", "readline": "", "inspector": "", "domain": "", "repl": "", "wasi": "", "trace_events": "",
}

// The kinds of ids that are no path in the tree.
const (
	nodePrefix    = "node:"
	ourPrefix     = "our:"
	missingPrefix = "missing:"
)

// FirstLine is the line before the first of every chunk: the frames of stacks tell by it that they are a package's.
const FirstLine = 1 << 16

// Maker makes chunks of the packages of a tree. It may be used concurrently.
type Maker struct {
	tree     fs.FS
	resolver *resolve.Resolver
}

// New returns a Maker for a tree with a folder node_modules, in npm's layout. standIns are the trees of [StandIns], which
// may be in the tree as well: what an adaptor brings of the same name, in a version of its own, would stand in their place there.
func New(tree fs.FS, standIns ...fs.FS) *Maker {
	all := mounted{tree, Overlay(standIns...)}
	return &Maker{all, resolve.New(all)}
}

var conditions = []string{"node", "require"}

// Entry returns the id of the chunk of a package's main module, as one that is installed at the top of the tree.
func (m *Maker) Entry(name string) (id string, err error) {
	return m.resolver.Find(name, ".", conditions)
}

// Chunk is the text of a chunk: a function of require, module, exports and an object with Node's globals.
type Chunk struct {
	Text string
	// Requires are the ids of the chunks that it may ask for, those behind Node's globals among them, sorted.
	Requires []string
	// Lacks are the packages that it asks for and the tree does not have, sorted.
	Lacks []string
	// Native tells that it is in part machine code, which is left out.
	Native bool
}

// Lacking returns the name of the builtin of Node's that nothing stands in for, "" where id is something else.
func Lacking(id string) string {
	name, isNode := strings.CutPrefix(id, nodePrefix)
	if !isNode || builtins[name] != "" || hasOurs(name) {
		return ""
	}
	return name
}

// Stub are the ids of the chunks that are behind every builtin that nothing stands in for.
var Stub = []string{stub, nodePrefix + "_missing"}

const stub = nodePrefix + "missing"

// Builtins are the ids of the chunks of all builtins that something stands in for.
func Builtins() []string {
	found := make(map[string]bool)
	for name, polyfill := range builtins {
		found[nodePrefix+name] = polyfill != ""
	}
	entries, _ := ours.ReadDir("node") // what is embedded can be read
	for _, entry := range entries {
		name := strings.TrimSuffix(entry.Name(), ".js")
		if _, known := builtins[name]; !known {
			name = strings.Replace(name, "_", "/", 1)
		}
		found[nodePrefix+name] = true
	}
	maps.DeleteFunc(found, func(_ string, has bool) bool { return !has })
	return slices.Sorted(maps.Keys(found))
}

// IsStandIn reports whether a chunk stands in for a builtin of Node's, or is of a package that does.
func IsStandIn(id string) bool {
	return strings.HasPrefix(id, nodePrefix) || strings.HasPrefix(id, standInsFolder+"/")
}

// Folder returns the folder of the package that a chunk is of.
func Folder(id string) string { return resolve.Folder(id) }

// Code returns the text of a chunk.
func (m *Maker) Code(id string) (string, error) {
	made, err := m.Chunk(id)
	return made.Text, err
}

// Chunk makes a chunk.
func (m *Maker) Chunk(id string) (Chunk, error) {
	entry, err := m.entryOf(id)
	if err != nil {
		return Chunk{}, err
	}
	var required others
	isOurs := strings.HasPrefix(entry, ourPrefix)
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{entry}, Bundle: true, Write: false,
		Format: api.FormatCommonJS, Platform: api.PlatformNeutral, Target: api.ES2022,
		LogLevel: api.LogLevelSilent, LegalComments: api.LegalCommentsNone, Charset: api.CharsetUTF8,
		Supported: map[string]bool{"dynamic-import": false, "import-meta": false},
		Define:    defines(isOurs), KeepNames: isOurs,
		Plugins: []api.Plugin{{Name: "chunk", Setup: func(build api.PluginBuild) { m.plug(build, id, entry, &required) }}},
	})
	if len(result.Errors) > 0 {
		return Chunk{}, fmt.Errorf("%s: %s", id, result.Errors[0].Text)
	}
	code := later(string(result.OutputFiles[0].Contents))
	for _, global := range globalsOf(code) {
		required.external(global)
	}
	text := strings.Repeat("\n", FirstLine) + "(function (require, module, exports, " + hostName + ") {" + code + "\n})"
	return Chunk{Text: text, Requires: required.sorted(), Lacks: slices.Sorted(maps.Keys(required.lacking)), Native: required.native}, nil
}

// others are the ids of chunks that one asks for. esbuild looks for them from several goroutines.
type others struct {
	mu      sync.Mutex
	ids     map[string]bool
	lacking map[string]bool // names of packages
	native  bool
}

// missing leaves something to who requires it, and finds it missing as in Node.
func (o *others) missing(specifier, lacking string) api.OnResolveResult {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.lacking == nil {
		o.lacking = make(map[string]bool)
	}
	if lacking != "" {
		o.lacking[lacking] = true
	}
	return api.OnResolveResult{Path: missingPrefix + specifier, External: true}
}

// external leaves something to another chunk.
func (o *others) external(id string) api.OnResolveResult {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.ids == nil {
		o.ids = make(map[string]bool)
	}
	o.ids[id] = true
	return api.OnResolveResult{Path: id, External: true}
}

func (o *others) sorted() []string { return slices.Sorted(maps.Keys(o.ids)) }

// What esbuild has made of imports, in packages that it has bundled: namespaces, of which only members are read.
var (
	plainImport = regexp.MustCompile(`(?m)^(\s*var import_\w+ = )require\(("[^"]+")\);$`)
	esmImport   = regexp.MustCompile(`(?m)^(\s*var \w+ = )__toESM\d*\(require\(("[^"]+")\)(?:, (1))?\);$`)
	oneOfLodash = regexp.MustCompile(`(?m)^(\s*)var \{ (\w+) \} = (import_lodash\w*\.default);$`)
)

// later has imports loaded when something is first read of them: most jobs use little of what a package imports.
// What esbuild has worded otherwise is loaded at once, as ever.
func later(code string) string {
	var made strings.Builder
	made.Grow(len(code) + len(code)/16)
	for line := range strings.Lines(code) {
		if strings.Contains(line, "require(") { // the patterns are slow, and most lines are something else
			line = plainImport.ReplaceAllString(line, "${1}require.later($2, 0);")
			line = esmImport.ReplaceAllString(line, "${1}require.later($2, 1${3});")
		} else if strings.Contains(line, "import_lodash") {
			line = oneOfLodash.ReplaceAllString(line, "${1}var $2 = (...args) => $3.$2(...args);")
		}
		made.WriteString(line)
	}
	return made.String()
}

// entryOf returns the path at which the code of a chunk begins.
func (m *Maker) entryOf(id string) (string, error) {
	name, isNode := strings.CutPrefix(id, nodePrefix)
	if !isNode {
		return id, nil
	}
	if hasOurs(name) {
		return ourPrefix + strings.ReplaceAll(name, "/", "_"), nil
	}
	if polyfill := builtins[name]; polyfill != "" {
		return m.resolver.Find(polyfill, standInsFolder, []string{"require"})
	}
	return ourPrefix + "missing", nil
}

func hasOurs(builtin string) bool {
	_, err := fs.Stat(ours, "node/"+strings.ReplaceAll(builtin, "/", "_")+".js")
	return err == nil
}

// hostGlobals are what the code of packages finds as globals, beyond those that jobs have.
var hostGlobals = strings.Fields(`process Buffer console Function URL URLSearchParams TextEncoder TextDecoder Blob File FormData Headers Request Response fetch
	ReadableStream WritableStream TransformStream AbortController AbortSignal Event EventTarget DOMException performance queueMicrotask setImmediate clearImmediate structuredClone
	atob btoa crypto`)

// hostName is what an object with those is called in the text of a chunk: a name that no function of a package has for
// something of its own, as many have a host.
const hostName = "phxworker$host"

// defines are what stands for the names of globals; files of ours know the object itself, as host.
func defines(isOurs bool) map[string]string {
	defined := map[string]string{"global": hostName + ".global", "__dirname": `"/"`, "__filename": `"/module.js"`, "import.meta.url": `"file:///module.js"`}
	for _, name := range hostGlobals {
		defined[name] = hostName + "." + name
	}
	if isOurs {
		defined["host"] = hostName
	}
	return defined
}

var (
	// lazyGlobals are the lines of the loader that say what is behind globals: names, and a builtin or another global.
	lazyGlobals = regexp.MustCompile(`(?m)^  lazily\(\[(.*?)\], .*?(?:require\('(node:[^']+)'\)|host\.(Buffer)\b)`)
	hostMember  = regexp.MustCompile(regexp.QuoteMeta(hostName) + `(?:\.(\w+)|\[)`) // begins with a word, which is found fast
)

// builtinsOfGlobals are the builtins behind Node's globals, by their names, as the loader has them.
var builtinsOfGlobals = sync.OnceValue(func() map[string]string {
	found := make(map[string]string)
	for _, line := range lazyGlobals.FindAllStringSubmatch(Loader, -1) {
		for name := range strings.SplitSeq(strings.NewReplacer("'", "", " ", "").Replace(line[1]), ",") {
			found[name] = cmp.Or(line[2], nodePrefix+strings.ToLower(line[3]))
		}
	}
	return found
})

// globalsOf returns the builtins behind the globals that code reads; all of them, where it reads some by names that it makes.
func globalsOf(code string) []string {
	all := builtinsOfGlobals()
	var found []string
	for _, member := range hostMember.FindAllStringSubmatch(code, -1) {
		switch name := member[1]; {
		case name == "", name == "global":
			return slices.Collect(maps.Values(all))
		case all[name] != "":
			found = append(found, all[name])
		}
	}
	return found
}

// plug has esbuild read from the tree, and leave out what is another chunk's.
func (m *Maker) plug(build api.PluginBuild, id, entry string, required *others) {
	const namespace = "tree"
	own := resolve.Folder(entry)
	build.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
		if a.Kind == api.ResolveEntryPoint {
			return api.OnResolveResult{Path: entry, Namespace: namespace}, nil
		}
		name := strings.TrimPrefix(a.Path, nodePrefix)
		if name == "process/" { // the package waits by timers where ours has microtasks
			name = "process"
		}
		base, _, _ := strings.Cut(name, "/")
		if _, known := builtins[base]; known && !strings.HasSuffix(name, "/") && nodePrefix+name != id {
			return required.external(nodePrefix + name), nil
		}
		from := path.Dir(a.Importer)
		if strings.HasPrefix(a.Importer, ourPrefix) {
			from = standInsFolder
		}
		found, err := m.resolver.Find(a.Path, from, conditions)
		switch {
		case err != nil:
			return required.missing(a.Path, m.resolver.Lacking(a.Path, from)), nil //nolint:nilerr // that is told when it is required
		case resolve.Folder(found) == own:
			return api.OnResolveResult{Path: found, Namespace: namespace}, nil
		}
		return required.external(found), nil
	})
	build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: namespace}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
		var data []byte
		var err error
		if name, isOurs := strings.CutPrefix(a.Path, ourPrefix); isOurs {
			data, err = ours.ReadFile("node/" + name + ".js")
		} else {
			data, err = fs.ReadFile(m.tree, a.Path)
		}
		text, loader := string(data), api.LoaderJS
		switch path.Ext(a.Path) {
		case ".json":
			loader = api.LoaderJSON
		case ".node":
			loader = api.LoaderEmpty
			required.mu.Lock()
			required.native = true
			required.mu.Unlock()
		}
		return api.OnLoadResult{Contents: &text, Loader: loader}, err
	})
}
