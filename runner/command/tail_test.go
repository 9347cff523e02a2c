package command

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Guards against an operator who is told the version of Node in place of what is
// wrong: it is what a Node that crashes prints last.
func TestWhatAProgramSaidLastThatSaysSomething(t *testing.T) {
	tests := []struct {
		name, stderr, want string
	}{
		{"nothing", "\n\n", ""},
		{"a line", "no such module: left-pad\n", "no such module: left-pad"},
		{"a shell", "sh: 1: exec: engine: not found\n", "sh: 1: exec: engine: not found"},
		{"an error with a stack", "file:///x.mjs:1\nthrow 1\n^\n\nTypeError: a is no function\n    at file:///x.mjs:1:7\n\nNode.js v20.20.2\n", "TypeError: a is no function"},
		{
			"an error with a code",
			"node:internal/modules/run_main:123\n    triggerUncaughtException(\n    ^\n\nError [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'\n    at f (node:internal:1:2) {\n  code: 'ERR_MODULE_NOT_FOUND'\n}\n\nNode.js v20.20.2\n",
			"Error [ERR_MODULE_NOT_FOUND]: Cannot find package 'x'",
		},
		{"what was thrown is no error", "node:internal/process/promises:394\n      triggerUncaughtException(err, true /* fromPromise */);\n      ^\n\n[the repo is empty]\n\nNode.js v20.20.2\n", "[the repo is empty]"},
		{"an object without a message", "the repo is empty\n    at f (x.mjs:1:2)\n  errno: -28,\n  code: 'ENOSPC'\n}\n\nNode.js v22.22.0\n", "the repo is empty"},
		{"a fatal error", "\n<--- Last few GCs --->\n\nFATAL ERROR: Reached heap limit\n 1: 0xb7 node::Abort()\n", "FATAL ERROR: Reached heap limit"},
		{"a panic", "panic: no disk\n\ngoroutine 1 [running]:\nmain.main()\n\t/x.go:3 +0x18\nexit status 2\n", "panic: no disk"},
		{"nothing else", "Node.js v20.20.2\n", "Node.js v20.20.2"},
		{"a line without end", "Error: " + strings.Repeat("x", 1000), "Error: " + strings.Repeat("x", 293) + "…"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, tellingLine([]byte(tt.stderr)))
		})
	}
}
