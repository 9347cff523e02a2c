package chunk

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"modernc.org/quickjs"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner/egress"
)

// homeVariable names a folder with node_modules that has language-common and the packages that stand in for Node's builtins.
const homeVariable = "PHXWORKER_TEST_CHUNKS"

// Every exported name of language-common, its util and what it brings, in Node and in QuickJS.
func TestCommonIsTheSame(t *testing.T) {
	home := os.Getenv(homeVariable)
	if home == "" {
		t.Skip("set " + homeVariable + " to a folder with the packages")
	}
	runtest.Need(t, "node")
	compare(t, inNode(t, home, "common.js", "@openfn/language-common", ""), inQuickJS(t, home, "common.js", "@openfn/language-common", ""))
}

// The exchanges of language-http with a server, in Node and in QuickJS: what they come to, and what the server was asked.
func TestHTTPIsTheSame(t *testing.T) {
	home := os.Getenv(homeVariable)
	if home == "" {
		t.Skip("set " + homeVariable + " to a folder with the packages")
	}
	runtest.Need(t, "node")
	server := newServer(t)
	want := inNode(t, home, "http.js", "@openfn/language-http", server.URL)
	asked := server.take()
	got := inQuickJS(t, home, "http.js", "@openfn/language-http", server.URL)
	compare(t, want, got)
	compare(t, asked, server.take())
}

func compare(t *testing.T, want, got []string) {
	t.Helper()
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

func inNode(t *testing.T, home, file, name, argument string) []string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "node", "testdata/node.mjs", "testdata/"+file, home, name, argument)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var lines []string
	require.NoError(t, json.Unmarshal(out, &lines))
	return lines
}

// inQuickJS executes a file of testdata with a package and one more argument, a text.
func inQuickJS(t *testing.T, home, file, name, argument string) []string {
	t.Helper()
	maker := New(os.DirFS(home))
	entry, err := maker.Entry(name)
	require.NoError(t, err)
	vm, err := quickjs.NewVM()
	require.NoError(t, err)
	defer func() { require.NoError(t, vm.Close()) }()
	vm.SetMaxStackSize(4 << 20)
	chunks := 0
	require.NoError(t, vm.RegisterFunc("__load", func(id string) quickjs.Value {
		code, err := maker.Code(id)
		if err != nil {
			value, _ := vm.NewString(err.Error())
			return value
		}
		chunks++
		value, err := vm.EvalValue(code, quickjs.EvalGlobal)
		if err != nil {
			value, _ = vm.NewString(fmt.Sprint(id, ": ", err))
		}
		return value
	}, false))
	require.NoError(t, vm.RegisterHostFunc("__call", func(args []any) (any, error) {
		operation, _ := args[0].(string)
		return Call(operation, args[1:])
	}))
	traffic := egress.New(egress.Config{Policy: egress.MustParse("any")}).Open(nil)
	defer traffic.Close()
	client := &Client{Traffic: traffic}
	defer client.Close()
	var exchanges []Exchange
	require.NoError(t, vm.RegisterHostFunc("__exchange", func(args []any) (any, error) {
		var x Exchange
		text, _ := args[0].(string)
		err := json.Unmarshal([]byte(text), &x)
		exchanges = append(exchanges, x)
		return nil, err
	}))
	var answer string
	require.NoError(t, vm.RegisterHostFunc("__answer", func(args []any) (any, error) {
		answer, _ = args[0].(string)
		return nil, nil
	}))
	text, err := os.ReadFile("testdata/" + file)
	require.NoError(t, err)
	_, err = vm.Eval(fmt.Sprintf(`(() => {
		const quiet = {}; for (const level of ['log', 'debug', 'warn', 'error', 'info']) quiet[level] = () => {};
		const timers = [];
		globalThis.setTimeout = (f, _, ...args) => timers.push(() => f(...args));
		globalThis.clearTimeout = id => { timers[id - 1] = undefined; };
		globalThis.__fire = () => { for (let i = 0; i < timers.length; i++) if (timers[i]) { const f = timers[i]; timers[i] = undefined; f(); return true; } return false; };
		const require = (%s)(__load, __call, text => new Promise(done => { waiting.push(done); __exchange(text); }), Function, quiet);
		const waiting = [];
		globalThis.__answered = text => waiting.shift()(text);
		(%s)(require(%q), { Buffer: require('node:buffer').Buffer, argument: %q }).then(
			lines => __answer(JSON.stringify(lines)),
			error => __answer(JSON.stringify(['failed: ' + error + error.stack + (error.why ?? '')])));
	})()`, strings.TrimSpace(Loader), strings.TrimSpace(string(text)), entry, argument), quickjs.EvalGlobal)
	require.NoError(t, err)
	for answer == "" {
		n, err := vm.ExecutePendingJobs()
		require.NoError(t, err)
		if n == 0 && len(exchanges) > 0 {
			exchanges[0].Call, err = traffic.Admit(0)
			require.NoError(t, err)
			answer, _ := json.Marshal(client.Do(t.Context(), exchanges[0]))
			exchanges[0].Call.Free()
			exchanges = exchanges[1:]
			_, err = vm.Call("__answered", string(answer))
			require.NoError(t, err)
			continue
		}
		if n == 0 {
			fired, err := vm.Call("__fire")
			require.NoError(t, err)
			require.Equal(t, true, fired, "nothing goes on")
		}
	}
	var lines []string
	require.NoError(t, json.Unmarshal([]byte(answer), &lines))
	t.Logf("%d chunks", chunks)
	return lines
}
