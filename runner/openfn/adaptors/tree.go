package adaptors

import (
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/phxworker/phxworker/runner/npm/resolve"
)

// manifestOf returns what counts for a file of the package.json around it.
func (b *bundler) manifestOf(file string) *resolve.Manifest {
	_, m := b.resolver.Around(path.Dir(file))
	return m
}

// isCommonJS tells how Node takes a file.
func (b *bundler) isCommonJS(file string) bool {
	switch path.Ext(file) {
	case ".js":
		return b.manifestOf(file).Type != "module"
	case ".cjs", ".node":
		return true
	}
	return false
}

// isESModule tells the same of what is none of CommonJS and has a name by which Node loads it.
func (b *bundler) isESModule(file string) bool {
	return path.Ext(file) == ".mjs" || path.Ext(file) == ".js" && !b.isCommonJS(file)
}

// dependencies are the folders of what a package says that it depends on, as far as these are there.
func (b *bundler) dependencies(dir string) (folders []string) {
	m := b.manifestOf(dir + "/package.json")
	for _, group := range []map[string]any{m.Dependencies, m.OptionalDependencies, m.PeerDependencies} {
		for name := range group {
			for at := dir; ; at = path.Dir(at) {
				folder := path.Join(at, "node_modules", name)
				if _, err := fs.Stat(b.tree, folder+"/package.json"); err == nil {
					folders = append(folders, folder)
					break
				}
				if at == "." {
					break
				}
			}
		}
	}
	return folders
}

// isBuiltin reports whether a name is that of a module of Node's.
func isBuiltin(name string) bool {
	return strings.HasPrefix(name, "node:") || slices.Contains(builtins, name)
}

var builtins = strings.Fields(`_http_agent _http_client _http_common _http_incoming _http_outgoing _http_server
	_stream_duplex _stream_passthrough _stream_readable _stream_transform _stream_wrap _stream_writable _tls_common _tls_wrap
	assert assert/strict async_hooks buffer child_process cluster console constants crypto dgram diagnostics_channel dns dns/promises
	domain events fs fs/promises http http2 https inspector inspector/promises module net os path path/posix path/win32 perf_hooks
	process punycode querystring readline readline/promises repl stream stream/consumers stream/promises stream/web string_decoder sys
	timers timers/promises tls trace_events tty url util util/types v8 vm wasi worker_threads zlib`)
