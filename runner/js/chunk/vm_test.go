package chunk

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner/js/vm"
)

const (
	commonPackage = "@openfn/language-common@3.3.4"
	httpPackage   = "@openfn/language-http@7.2.10"
)

// What language-common exports, in Node and in QuickJS.
func TestCommonIsTheSame(t *testing.T) { compare(t, both(t, "common.js", commonPackage, "")) }

// The exchanges of language-http with a server, in Node and in QuickJS: what they come to, and what the server was asked.
func TestHTTPIsTheSame(t *testing.T) {
	server := newServer(t)
	var asked [2][]string
	got := eachOf(t, "http.js", httpPackage, server.URL, func(i int) { asked[i] = server.take() })
	compare(t, got)
	compare(t, asked)
}

// Node's builtins, as far as packages use them, in Node and on Go's.
func TestBuiltinsAreTheSame(t *testing.T) {
	server := newServer(t)
	var got, asked [2][]string
	// Some of the uses break connections off, and which event comes first then is the system's: what differs is tried again.
	for range 3 {
		got = eachWith(t, testFile(t, "builtins.js"), home(t, httpPackage), "undici", server.URL, func(i int) {
			// What is given up early may not have been asked.
			asked[i] = slices.DeleteFunc(server.take(), func(told string) bool { return strings.Contains(told, `"/slow"`) })
			slices.Sort(asked[i]) // the server tells of an upload that breaks off when it sees that, perhaps behind the next request
		})
		if slices.Equal(got[0], got[1]) && slices.Equal(asked[0], asked[1]) {
			break
		}
	}
	compare(t, got)
	compare(t, asked)
}

// Guards against a hash that Node has and a package believes not to be there: each is Node's, or is said to be missing, which ends
// the run and has the adaptor be for Node.
func TestHashesAreThoseOfNodeOrMissing(t *testing.T) {
	const code = `async (_, { require, argument }) => (crypto => (argument ? argument.split(' ') : crypto.getHashes()).map(name => {
		const tries = [() => crypto.createHash(name).update('x').digest('hex'), () => crypto.createHmac(name, 'k').update('x').digest('hex'), () => crypto.pbkdf2Sync('p', 's', 2, 8, name).toString('hex')];
		return name + tries.map(one => { try { return ' ' + one(); } catch (error) { return ' ' + (error.code ?? error.message); } }).join('');
	}))(require('node:crypto'))`
	runtest.Need(t, "node")
	dir := home(t, httpPackage)
	want := inNode(t, dir, code, "undici", "")
	require.Greater(t, len(want), 30)
	var names []string
	for _, line := range want {
		name, _, _ := strings.Cut(line, " ")
		names = append(names, name)
	}
	same := 0
	for i, got := range inQuickJS(t, storeOf(t, dir), code, "undici", strings.Join(names, " ")) {
		if strings.Count(got, "ERR_NOT_BUILT_IN") != 3 {
			require.Equal(t, want[i], got)
			same++
		}
	}
	require.GreaterOrEqual(t, same, 20)
}

// Guards against an encoding that Node has and a package believes not to be there.
func TestEncodingsAreThoseOfNodeOrMissing(t *testing.T) {
	const code = `async () => ['utf8', 'utf-16le', 'latin1', 'utf-16be', 'windows-1251', 'cp1252', 'iso-8859-15', 'iso8859-2', 'latin2', 'l1', 'koi8-r', 'gbk', 'gb18030', 'big5', 'shift_jis', 'euc-jp', 'euc-kr', 'ibm866', 'macintosh', 'x-mac-cyrillic', 'nonsense', ''].map(label => {
		try { return label + ' ' + new TextDecoder(label).decode(new Uint8Array([0x41, 0x42])); } catch (error) { return label + ' ' + error.name + ' ' + error.code; }
	})`
	lines := eachWith(t, code, home(t, httpPackage), "undici", "", func(int) {})
	for i, want := range lines[0] {
		if !strings.Contains(lines[1][i], "ERR_NOT_BUILT_IN") {
			require.Equal(t, want, lines[1][i])
		}
	}
	require.Equal(t, lines[0][0], lines[1][0])
}

// Clients that adaptors of OpenFn bring, which are on http and https, in Node and in QuickJS.
func TestClientsAreTheSame(t *testing.T) {
	for _, specifier := range []string{"axios@1.7.9", "node-fetch@2.7.0", "superagent@8.1.2", "follow-redirects@1.15.9"} {
		t.Run(specifier, func(t *testing.T) {
			server := newServer(t)
			var asked [2][]string
			compare(t, eachOf(t, "clients.js", specifier, specifier+" "+server.URL, func(i int) {
				asked[i] = slices.DeleteFunc(server.take(), func(told string) bool { return strings.Contains(told, `"/slow"`) })
			}))
			compare(t, asked)
		})
	}
}

// both executes a file of testdata with a package, in Node and in QuickJS.
func both(t *testing.T, file, specifier, argument string) [2][]string {
	t.Helper()
	return eachOf(t, file, specifier, argument, func(int) {})
}

// eachOf calls then after each of the two.
func eachOf(t *testing.T, file, specifier, argument string, then func(i int)) [2][]string {
	t.Helper()
	return eachWith(t, testFile(t, file), home(t, specifier), specifier[:strings.LastIndex(specifier, "@")], argument, then)
}

func testFile(t *testing.T, file string) string {
	t.Helper()
	text, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	return string(text)
}

// eachWith takes the code of a function and a module of a folder.
func eachWith(t *testing.T, code, dir, name, argument string, then func(i int)) (lines [2][]string) {
	t.Helper()
	runtest.Need(t, "node")
	lines[0] = inNode(t, dir, code, name, argument)
	then(0)
	lines[1] = inQuickJS(t, storeOf(t, dir), code, name, argument)
	then(1)
	return lines
}

func compare(t *testing.T, lines [2][]string) {
	t.Helper()
	want, got := lines[0], lines[1]
	same := 0
	for i := range max(len(want), len(got)) {
		var w, g string
		if i < len(want) {
			w = want[i]
		}
		if i < len(got) {
			g = got[i]
		}
		if w != g {
			t.Errorf("node  %s\nhere  %s", w, g)
			continue
		}
		same++
	}
	t.Logf("%d of %d are the same", same, len(want))
}

func inNode(t *testing.T, home, code, name, argument string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", "testdata/node.mjs", home, name, argument)
	cmd.Stdin = strings.NewReader(code)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var lines []string
	require.NoError(t, json.Unmarshal(out, &lines))
	return lines
}

// answered is what came of an exchange.
type answered struct {
	id   int
	text string
}

// inQuickJS executes code with a package and one more argument, a text.
func inQuickJS(t *testing.T, store chunks, code, name, argument string) []string {
	t.Helper()
	client := newClient(t, "any")
	defer client.Close()
	return execute(t, store, client, code, name, argument)
}

// execute calls a function with a package and what a test needs, and returns the lines that come of it.
func execute(t *testing.T, store chunks, client *Client, code, name, argument string) []string {
	t.Helper()
	maker := store.maker
	entry, err := maker.Entry(name)
	require.NoError(t, err)
	if _, standsIn := builtins[name]; standsIn {
		entry = nodePrefix + name
	}
	engine, err := vm.New()
	require.NoError(t, err)
	defer engine.Close()
	// A package's code, so that it has the globals of packages.
	test := New(Overlay(fstest.MapFS{testModule: {Data: []byte("module.exports =\n" + code)}}, maker.tree))
	load := engine.Function(func(args []any) (any, error) {
		id, _ := args[0].(string)
		var made any
		var err error
		if id == testModule {
			var chunk Chunk
			if chunk, err = test.Chunk(id); err == nil {
				made, err = engine.Eval(chunk.Text)
			}
		} else {
			var code []byte
			if code, err = store.Bytecode(id); err == nil {
				made, err = engine.Load(code)
			}
		}
		if err != nil {
			return fmt.Sprint(id, ": ", err), nil
		}
		return made, nil
	})
	call := engine.Function(func(args []any) (any, error) {
		operation, _ := args[0].(string)
		return Call(operation, args[1:])
	})
	ctx, cancel := context.WithCancel(t.Context())
	came, fired := make(chan answered), make(chan int)
	var under sync.WaitGroup
	defer under.Wait()
	defer cancel()
	exchange := engine.Function(func(args []any) (any, error) {
		var x Exchange
		text, _ := args[1].(string)
		id := number(args)
		err := json.Unmarshal([]byte(text), &x)
		under.Go(func() {
			call, err := client.Traffic.Admit(int64(len(text)) + x.Holds())
			if err != nil {
				t.Error(err)
				return
			}
			defer call.Free()
			x.Call = call
			told, _ := json.Marshal(client.Do(ctx, x))
			select {
			case came <- answered{id, string(told)}:
			case <-ctx.Done():
			}
		})
		return nil, err
	})
	timer := engine.Function(func(args []any) (any, error) {
		id, delay := number(args), number(args[1:])
		under.Go(func() {
			select {
			case <-time.After(time.Duration(delay) * time.Millisecond):
			case <-ctx.Done():
				return
			}
			select {
			case fired <- id:
			case <-ctx.Done():
			}
		})
		return nil, nil
	})
	var answer string
	told := engine.Function(func(args []any) (any, error) {
		answer, _ = args[0].(string)
		return nil, nil
	})
	begin, err := engine.Eval(fmt.Sprintf(harness, strings.TrimSpace(Loader), testModule, entry, argument))
	require.NoError(t, err)
	dispatch, err := engine.Call(begin.(vm.Value), load, call, exchange, timer, told)
	require.NoError(t, err)
	for answer == "" {
		_, err := engine.Drain(1 << 20)
		require.NoError(t, err)
		if answer != "" {
			break
		}
		select {
		case one := <-came:
			_, err = engine.Call(dispatch.(vm.Value), "answered", one.id, one.text)
		case id := <-fired:
			_, err = engine.Call(dispatch.(vm.Value), "fire", id)
		case <-time.After(time.Minute):
			t.Fatal("nothing goes on")
		}
		require.NoError(t, err)
	}
	var lines []string
	require.NoError(t, json.Unmarshal([]byte(answer), &lines))
	return lines
}

// harness is what the prelude gives to a loader, in little.
const harness = `(__load, __call, __exchange, __timer, __answer) => {
	const quiet = {}; for (const level of ['log', 'debug', 'warn', 'error', 'info']) quiet[level] = () => {};
	const timers = new Map(), waiting = new Map();
	let last = 0;
	globalThis.setTimeout = (f, delay = 1, ...args) => { timers.set(++last, () => f(...args)); __timer(last, delay); return last; };
	globalThis.clearTimeout = id => { timers.delete(id); };
	globalThis.setInterval = (f, delay, ...args) => { const id = ++last; const again = () => { f(...args); if (timers.has(id)) __timer(id, delay); }; timers.set(id, again); __timer(id, delay); return id; };
	globalThis.clearInterval = clearTimeout;
	const fire = id => { timers.get(id)?.(); };
	const answered = (id, text) => { const done = waiting.get(id); waiting.delete(id); done(text); };
	Error.captureStackTrace ??= () => {};
	const exchange = text => new Promise(done => { waiting.set(++last, done); __exchange(last, text); });
	const Native = Function;
	const require = (%s)(__load, __call, exchange, Native, quiet);
	require(%q)(require(%q), { require, Buffer: require('node:buffer').Buffer, argument: %q, Native, ofGo: [__load, __call, __exchange, exchange] }).then(
		lines => __answer(JSON.stringify(lines)),
		error => __answer(JSON.stringify(['failed: ' + error + error.stack + (error.why ?? '')])));
	return (name, ...args) => ({ fire, answered })[name](...args);
}`

// testModule is the file of a test among the packages.
const testModule = "node_modules/test/index.js"
