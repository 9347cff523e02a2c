package js

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
)

// The globals that jobs know from Node; the values are what Node has.
func TestGlobals(t *testing.T) {
	tests := []struct{ name, expression, want string }{
		{name: "Buffer to text", expression: `[Buffer.from('héllo').toString('base64'), Buffer.from('aGk', 'base64') + '', Buffer.from('6869', 'hex').toString(), Buffer.from('é').length]`, want: `["aMOpbGxv","hi","hi",2]`},
		{name: "Buffer encodings", expression: `['hex', 'base64', 'base64url', 'latin1', 'utf16le'].map(e => Buffer.from(Buffer.from('ab?>').toString(e), e).toString())`, want: `["ab?>","ab?>","ab?>","ab?>","ab?>"]`},
		{name: "Buffer functions", expression: `[Buffer.concat([Buffer.from('a'), Buffer.alloc(2, 'b')]).toString(), Buffer.isBuffer(Buffer.from('')), Buffer.byteLength('é'), Buffer.from('abcd').slice(1, 3).toString(), Buffer.from('abcd').indexOf('cd'), Buffer.from('a').equals(Buffer.from('a')), JSON.stringify(Buffer.from('a'))]`, want: `["abb",true,2,"bc",2,true,"{\"type\":\"Buffer\",\"data\":[97]}"]`},
		{name: "base64", expression: `[btoa('hi'), atob('aGk=')]`, want: `["aGk=","hi"]`},
		{name: "text", expression: `[Array.from(new TextEncoder().encode('é😀')), new TextDecoder().decode(new Uint8Array([0xc3, 0xa9, 0xff, 0xf0, 0x9f, 0x98, 0x80]))]`, want: `[[195,169,240,159,152,128],"é�😀"]`},
		{name: "structuredClone", expression: `(() => { const o = { d: new Date(0), m: new Map([[1, { a: 1 }]]) }; o.self = o; const c = structuredClone(o); return [c !== o, c.self === c, c.d.getTime(), c.m.get(1).a]; })()`, want: `[true,true,0,1]`},
		{name: "URL", expression: `(() => { const u = new URL('../b?x=1#h', 'https://u:p@Example.org:443/a/c/d'); u.searchParams.append('y', 'a b&'); return [u.href, u.origin, u.host, u.pathname, u.search, u.hash, u.searchParams.get('y')]; })()`, want: `["https://u:p@example.org/a/b?x=1&y=a+b%26#h","https://example.org","example.org","/a/b","?x=1&y=a+b%26","#h","a b&"]`},
		{name: "URL that is none", expression: `(() => { try { new URL('nope'); } catch (e) { return [e.message, e.code, URL.canParse('http://x')]; } })()`, want: `["Invalid URL","ERR_INVALID_URL",true]`},
		{name: "URLSearchParams", expression: `[new URLSearchParams({ a: 1, b: 'x y' }).toString(), [...new URLSearchParams('?a=1&a=2')].join(';'), new URLSearchParams('a=1&b=2').has('b')]`, want: `["a=1&b=x+y","a,1;a,2",true]`},
		{name: "Intl", expression: `[new Intl.NumberFormat('en-US', { style: 'currency', currency: 'USD' }).format(1234.5), (1234.5).toLocaleString(), new Date(0).toLocaleDateString('en-GB', { timeZone: 'UTC' })]`, want: `["$1,234.50","1,234.5","01/01/1970"]`},
		{name: "collation", expression: `[['b', 'Á', 'a', 'B', 'ä', '1'].sort((x, y) => x.localeCompare(y)), ['x10', 'x9'].sort(new Intl.Collator('en', { numeric: true }).compare)]`, want: `[["1","a","Á","ä","b","B"],["x9","x10"]]`},
		{name: "crypto", expression: `[crypto.randomUUID().length, crypto.getRandomValues(new Uint8Array(4)).length]`, want: `[36,4]`},
		{name: "not there", expression: `[typeof process, typeof require, typeof module, typeof fetch, typeof std, typeof os, typeof __host, typeof __native, typeof __adaptor]`, want: `["undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined","undefined"]`},
	}
	w := runtest.New(t, New(Config{}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			record := w.Job(`fn(() => ({ is: ` + tt.expression + ` }))`)
			require.Equal(t, "success", record.Reason, record.ErrorMessage)
			require.JSONEq(t, `{"is":`+tt.want+`}`, string(record.FinalState))
		})
	}
}
