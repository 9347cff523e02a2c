package compile_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/compile"
	"github.com/phxworker/phxworker/runner/js/vm"
)

// adaptor is a small adaptor. Its operations record their arguments, as far as these are not functions of the state.
const adaptor = `
const expand = (value, state) => typeof value === 'function' ? value(state) : value;
export const fn = f => state => f(state);
export const log = (...values) => state => ({ ...state, logged: [...(state.logged ?? []), ...values.map(v => expand(v, state))] });
export const each = (items, operation) => async state => {
	for (const data of expand(items, state)) state = { ...await operation({ ...state, data }), data: state.data };
	return state;
};
export const later = value => async state => ({ ...state, value: expand(value, state) });
export const fails = message => async () => { throw new Error(message); };
export const execute = (...operations) => async state => {
	for (const operation of operations) state = await operation(state);
	return { ...state, executed: operations.length };
};
`

// runtime stands for '@openfn/runtime': an error thrown at once goes to the catch and ends the chain there.
const runtime = `
export const defer = (operation, complete = p => p, caught = e => { throw e; }) => state => {
	try {
		return complete(Promise.resolve(operation(state)).catch(e => caught(e, state)));
	} catch (e) {
		return caught(e, state);
	}
};
`

// driver runs a job's operations, with its execute or one after the other, and keeps what came of it.
const driver = `
import('job').then(async job => {
	let state = globalThis.input;
	if (job.execute) return job.execute(...job.default)(state);
	for (const operation of job.default) state = await operation(state);
	return state;
}).then(
	state => { globalThis.output = JSON.stringify(state); },
	error => { globalThis.output = 'thrown: ' + error + '\n' + error.stack; },
);
`

const adaptorName = "@openfn/language-test"

// adaptors is the fake adaptor with its exports known.
func adaptors() []compile.Adaptor {
	return []compile.Adaptor{{Name: adaptorName, Exports: []string{"fn", "log", "each", "later", "fails", "execute"}}}
}

// run executes a compiled job in QuickJS on a state in JSON, and returns the resulting state in JSON.
func run(t *testing.T, code, state string) string {
	t.Helper()
	engine, err := vm.New()
	require.NoError(t, err)
	defer engine.Close()

	modules := map[string]string{"job": code, adaptorName: adaptor, "@openfn/runtime": runtime}
	engine.Modules = func(name string) (string, error) {
		if source, ok := modules[name]; ok {
			return source, nil
		}
		return "", fmt.Errorf("no module %q", name)
	}

	_, err = engine.Eval("globalThis.input = " + state)
	require.NoError(t, err)
	_, err = engine.Eval(driver)
	require.NoError(t, err)
	_, err = engine.Drain(1 << 20)
	require.NoError(t, err)
	output, err := engine.Eval("String(globalThis.output)")
	require.NoError(t, err)
	return output.(string)
}
