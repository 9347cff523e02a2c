package chunk

import (
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/egress"
)

// hostile is a server that means harm.
func hostile(t *testing.T) *httptest.Server {
	t.Helper()
	over := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/endless":
			for part := strings.Repeat("x", 64<<10); ; {
				if _, err := io.WriteString(w, part); err != nil {
					return
				}
			}
		case "/never":
			_, _ = io.WriteString(w, "begun")
			_ = http.NewResponseController(w).Flush()
			select {
			case <-over:
			case <-r.Context().Done():
			}
		case "/headers":
			w.Header().Set("X-Bomb", strings.Repeat("x", 1<<20))
		case "/many-headers":
			for i := range 20_000 {
				w.Header().Set("X-"+strconv.Itoa(i), strings.Repeat("y", 50))
			}
		case "/bomb":
			w.Header().Set("Content-Encoding", "gzip")
			packed, err := pack("gzip", make([]byte, 4<<20), 9)
			if err == nil {
				_, _ = w.Write(packed)
			}
		default:
			_, _ = io.WriteString(w, "ok")
		}
	}))
	t.Cleanup(server.Close)
	t.Cleanup(func() { close(over) })
	return server
}

// Whatever a server or a job does, the job gets an error, the worker's memory stays bounded, and nothing is left behind when
// the run ends; goleak looks at that.
func TestHostileExchanges(t *testing.T) {
	server := hostile(t)
	tests := []struct{ name, code, want string }{
		{"an endless body", `(await undici.request(server + '/endless')).body.text()`, `a response may have`},
		{"an endless body in parts", `(async () => { let n = 0; for await (const part of (await undici.request(server + '/endless')).body) n += part.length; return n; })()`, `a response may have`},
		{"an endless body by fetch", `(await undici.fetch(server + '/endless')).arrayBuffer()`, `a response may have`},
		{"an endless body by http", `new Promise((done, fail) => http.get(server + '/endless', async r => { try { for await (const part of r); } catch (error) { fail(error); } }))`, `a response may have`},
		{"a compressed bomb", `(await undici.request(server + '/bomb', { dispatcher: new undici.Agent().compose(undici.interceptors.decompress()) })).body.text()`, `a response may have`},
		{"a compressed bomb by http", `new Promise((done, fail) => http.get(server + '/bomb', r => r.pipe(zlib.createGunzip()).on('error', fail).resume()))`, `a response may have`},
		{"a bomb at once", `zlib.gunzipSync(Buffer.from(packed, 'base64')).length`, `what comes of it is over`},
		{"a body that never ends", `(await undici.request(server + '/never', { bodyTimeout: 50 })).body.text()`, `Body Timeout Error`},
		{"a body that never ends, and nobody reads", `(await undici.request(server + '/never')).statusCode`, `200`},
		{"a long header", `(await undici.request(server + '/headers')).statusCode`, `Headers Overflow Error`},
		{"a long header by http", `new Promise((done, fail) => http.get(server + '/headers', done).on('error', fail))`, `Parse Error: Header overflow`},
		{"many headers", `(await undici.request(server + '/many-headers')).statusCode`, `Headers Overflow Error`},
		{"many requests at once", `(async () => { let ok = 0; await Promise.all(Array.from({ length: 60 }, async () => { if (await (await undici.request(server + '/x')).body.text() === 'ok') ok++; })); return ok; })()`, `60`},
		{"many that never end", `(async () => { const all = await Promise.all(Array.from({ length: 20 }, () => undici.request(server + '/never'))); return all.length; })()`, `20`},
		{"an upload that never ends", `Promise.race([undici.request(server + '/x', { method: 'POST', body: (async function* () { yield 'a'; await new Promise(() => {}); })() }), new Promise(done => setTimeout(done, 30, 'given up'))])`, `given up`},
		{"random bytes without end", `crypto.randomBytes(1e12).length`, `RangeError`},
		{"a key that takes for ever", `crypto.pbkdf2Sync('p', 's', 1e12, 32, 'sha256')`, `not too large`},
	}
	packed, err := pack("gzip", make([]byte, mostPacked+1), 9)
	require.NoError(t, err)
	store := storeOf(t, home(t, httpPackage))
	client := newExchanger(t, "any", egress.Limits{ResponseBytes: 256 << 10}).client
	var code strings.Builder
	for _, tt := range tests {
		_, _ = fmt.Fprintf(&code, "async () => %s,\n", tt.code)
	}
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	lines := execute(t, store, client, `async (undici, lib) => {
		const [http, zlib, crypto] = ['http', 'zlib', 'crypto'].map(name => lib.require('node:' + name));
		const [server, packed] = lib.argument.split(' ');
		const lines = [];
		for (const use of [`+code.String()+`]) {
			try { lines.push(String(await use())); } catch (error) { lines.push(error.name + ': ' + error.message); }
		}
		return lines;
	}`, "undici", server.URL+" "+base64.StdEncoding.EncodeToString(packed))
	client.Close()
	for i, tt := range tests {
		require.Contains(t, lines[i], tt.want, tt.name)
	}
	runtime.GC()
	runtime.GC() // what pools hold goes with the second
	runtime.ReadMemStats(&after)
	require.Less(t, int64(after.HeapAlloc)-int64(before.HeapAlloc), int64(64<<20), "kept by what is over")
}

// Guards against a job that changes what is global before its adaptor loads something: whatever it does with that, it gets
// neither a function of Go's nor the constructor of functions, and the exchanges are the adaptor's.
func TestPatchedPrototypesReachNothing(t *testing.T) {
	server := newServer(t)
	store := storeOf(t, home(t, httpPackage))
	client := newClient(t, "any")
	defer client.Close()
	lines := execute(t, store, client, `async (http, lib) => {
		const given = new Set();
		const { apply, getPrototypeOf, ownKeys } = Reflect;
		const add = Set.prototype.add, { Proxy: NativeProxy } = globalThis;
		const note = (...all) => { for (let i = 0; i < all.length; i++) if ((typeof all[i] === 'object' && all[i] !== null) || typeof all[i] === 'function') apply(add, given, [all[i]]); };
		const patch = (object, names) => {
			for (const name of names) {
				let was;
				try { was = object[name]; } catch { continue; }
				if (typeof was !== 'function' || name === 'constructor') continue;
				try { object[name] = function (...args) { note(this, ...args); return new.target ? Reflect.construct(was, args, new.target) : apply(was, this, args); }; Object.setPrototypeOf(object[name], was); object[name].prototype = was.prototype; } catch {}
			}
		};
		const spy = { get() { note(this); return undefined; }, set(value) { note(this, value); }, configurable: true };
		const kinds = [Object, Function.prototype, Array.prototype, String.prototype, Promise.prototype, Map.prototype, JSON, Array, Object.prototype];
		for (let i = 0; i < kinds.length; i++) patch(kinds[i], Object.getOwnPropertyNames(kinds[i]).filter(name => !/^__|^(apply|call|bind)$/.test(name) || kinds[i] === Function.prototype));
		patch(Reflect, ['construct', 'defineProperty', 'ownKeys', 'get', 'set']);
		patch(globalThis, ['Proxy', 'Promise']);
		const call = async () => (await http.get(lib.argument + '/echo')({ configuration: {}, references: [], data: {} })).data.method;
		const came = await call().catch(error => error.message + error.stack);
		for (const name of ['exports', 'get', 'set', 'value', 'writable', 'call', 'exchange', 'Function', 'Method', 'Stream', 'error']) {
			try { Object.defineProperty(Object.prototype, name, spy); } catch {}
		}
		await call().catch(() => {});
		const leaks = [];
		for (const one of given) {
			if (one === lib.Native) leaks.push('the constructor of functions');
			for (const name of ['call', 'exchange', 'load']) {
				const own = Object.getOwnPropertyDescriptor(one, name);
				if (own && typeof own.value === 'function' && ownKeys(one).includes('Function')) leaks.push(name);
			}
			if (lib.ofGo.includes(one)) leaks.push('a function of Go');
		}
		return ['leaks: ' + leaks.join(), 'given: ' + (given.size > 0), came];
	}`, "@openfn/language-http", server.URL)
	require.Equal(t, "leaks: ", lines[0])
	require.Equal(t, "given: true", lines[1])
	require.Equal(t, "GET", lines[2])
}
