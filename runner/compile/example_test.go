package compile_test

import (
	"errors"
	"fmt"

	"github.com/phxworker/phxworker/runner/compile"
)

func ExampleCompile() {
	module, err := compile.Compile(compile.Job{
		Name: "Load patients",
		Body: "get($.data.url)\n  .then(s => s);\nfn(state => state);",
		Adaptors: []compile.Adaptor{
			{Name: "@openfn/language-http", Exports: []string{"fn", "get", "post", "execute"}},
		},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Print(module.Code)
	for _, operation := range module.Operations {
		fmt.Println(operation.Position.Line, operation.Name)
	}
	// Output:
	// import { defer as _defer } from "@openfn/runtime"; import { get, fn } from "@openfn/language-http"; export * from "@openfn/language-http"; const _op1 = () => _defer(get(state => state.data.url), p => p
	//   .then(s => s));
	// const _op2 = () => fn(state => state);
	// ;export default [_op1(), _op2()];
	// 1 get
	// 3 fn
}

func ExampleError() {
	_, err := compile.Compile(compile.Job{Name: "Load patients", Body: "fn(state => {\n  const x = ;\n});"})
	fmt.Println(err)

	if e, ok := errors.AsType[*compile.Error](err); ok {
		fmt.Println(e.Message, "in line", e.Position.Line, "column", e.Position.Column)
	}
	// Output:
	// Load patients: Unexpected token (2:12)
	// Unexpected token in line 2 column 13
}

func ExampleModule_Original() {
	module, _ := compile.Compile(compile.Job{Body: "fn($.a, $.b);\nfn(state => state.x.y);"})
	fmt.Println(module.Original(2, 40, compile.V8)) // `y`, as V8 reports that it cannot read it
	// Output: {2 21} true
}

func ExampleCondition() {
	function, _ := compile.Condition("!state.errors && state.data.n > 5")
	fmt.Println(function)
	_, err := compile.Condition("state.data ===")
	fmt.Println(err)
	// Output:
	// (function (state, upstreamStepId) { return !state.errors && state.data.n > 5
	// })
	// Unexpected end of input (1:14)
}
