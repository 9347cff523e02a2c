package chunk

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"modernc.org/quickjs"

	"github.com/phxworker/phxworker/internal/runtest"
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
	out, err := exec.CommandContext(t.Context(), "node", "testdata/common.mjs", "testdata/common.js", home).Output()
	require.NoError(t, err)
	var want []string
	require.NoError(t, json.Unmarshal(out, &want))

	got := inQuickJS(t, home)
	require.Len(t, got, len(want))
	same := 0
	for i := range want {
		if want[i] != got[i] {
			t.Errorf("node  %s\nhere  %s", want[i], got[i])
			continue
		}
		same++
	}
	t.Logf("%d of %d uses come to the same", same, len(want))
}

func inQuickJS(t *testing.T, home string) []string {
	t.Helper()
	maker := New(os.DirFS(home))
	entry, err := maker.Entry("@openfn/language-common")
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
	var answer string
	require.NoError(t, vm.RegisterHostFunc("__answer", func(args []any) (any, error) {
		answer, _ = args[0].(string)
		return nil, nil
	}))
	text, err := os.ReadFile("testdata/common.js")
	require.NoError(t, err)
	_, err = vm.Eval(fmt.Sprintf(`(() => {
		const quiet = {}; for (const level of ['log', 'debug', 'warn', 'error', 'info']) quiet[level] = () => {};
		const timers = [];
		globalThis.setTimeout = (f, _, ...args) => timers.push(() => f(...args));
		globalThis.clearTimeout = id => { timers[id - 1] = undefined; };
		globalThis.__fire = () => { for (let i = 0; i < timers.length; i++) if (timers[i]) { const f = timers[i]; timers[i] = undefined; f(); return true; } return false; };
		const require = (%s)(__load, __call, Function, quiet);
		(%s)(require(%q), { Buffer: require('node:buffer').Buffer }).then(
			lines => __answer(JSON.stringify(lines)),
			error => __answer(JSON.stringify(['failed: ' + error + error.stack + (error.why ?? '')])));
	})()`, strings.TrimSpace(Loader), strings.TrimSpace(string(text)), entry), quickjs.EvalGlobal)
	require.NoError(t, err)
	for answer == "" {
		n, err := vm.ExecutePendingJobs()
		require.NoError(t, err)
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
