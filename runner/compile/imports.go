package compile

import (
	"context"
	"strings"
)

// Step 5: imports.

// adaptorImports imports the dangling names of the body from the adaptors that export them.
func (b *builder) adaptorImports(adaptors []Adaptor) error {
	// Adaptors whose exports are known choose first: the others would take every name.
	taken := map[string]bool{}
	names := make([][]string, len(adaptors))
	for _, known := range []bool{true, false} {
		for i, adaptor := range adaptors {
			if (adaptor.Exports != nil) == known {
				names[i] = b.take(adaptor, taken)
			}
		}
	}
	if b.ctx.Err() != nil {
		return context.Cause(b.ctx)
	}
	for i, adaptor := range adaptors {
		if len(names[i]) > 0 {
			b.declareImport("import { "+strings.Join(names[i], ", ")+" }", adaptor.Name)
			b.declareImport("export *", adaptor.Name)
			b.added = append(b.added, Import{Module: adaptor.Name})
		}
	}
	return nil
}

// take returns the dangling names that an adaptor exports and no other one has taken, in the order of their first use.
func (b *builder) take(adaptor Adaptor, taken map[string]bool) []string {
	exports := make(map[string]bool, len(adaptor.Exports))
	for _, name := range adaptor.Exports {
		exports[name] = true
	}
	var names []string
	for _, ref := range b.references {
		if b.ctx.Err() != nil {
			break
		}
		wanted := exports[ref.name]
		if adaptor.Exports == nil {
			wanted = !isGlobal(ref.name)
		}
		if wanted && !taken[ref.name] && !ref.declared() {
			taken[ref.name] = true
			names = append(names, ref.name)
		}
	}
	return names
}

// isGlobal reports whether a name is one that a job finds without importing it: JavaScript's own, those of its
// hosts, and what the compiler and the runtime provide. An adaptor whose exports are unknown is not asked for them.
func isGlobal(name string) bool {
	switch name {
	case "AggregateError", "Array", "ArrayBuffer", "AsyncFunction", "Atomics", "BigInt", "BigInt64Array", "BigUint64Array",
		"Boolean", "DataView", "Date", "Error", "EvalError", "FinalizationRegistry", "Float16Array", "Float32Array", "Float64Array",
		"Function", "Infinity", "Int16Array", "Int32Array", "Int8Array", "Intl", "Iterator", "JSON", "Map", "Math", "NaN", "Number",
		"Object", "Promise", "Proxy", "RangeError", "ReferenceError", "Reflect", "RegExp", "Set", "SharedArrayBuffer", "String",
		"Symbol", "SyntaxError", "TypeError", "URIError", "Uint16Array", "Uint32Array", "Uint8Array", "Uint8ClampedArray",
		"WeakMap", "WeakRef", "WeakSet", "WebAssembly", "arguments", "decodeURI", "decodeURIComponent", "encodeURI",
		"encodeURIComponent", "escape", "eval", "globalThis", "isFinite", "isNaN", "parseFloat", "parseInt", "undefined", "unescape":
		return true // the language
	case "AbortController", "AbortSignal", "Blob", "Buffer", "Event", "EventTarget", "FormData", "Headers", "Request", "Response",
		"TextDecoder", "TextEncoder", "URL", "URLSearchParams", "atob", "btoa", "clearImmediate", "clearInterval", "clearTimeout",
		"crypto", "fetch", "performance", "queueMicrotask", "setImmediate", "setInterval", "setTimeout", "structuredClone":
		return true // hosts
	case "console", "exports", "module", "process", "require", "state":
		return true
	}
	return false
}
