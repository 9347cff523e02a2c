package openfn

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
)

// sayPID takes some time, and leaves the process that executes it.
const sayPID = "fn(s => { " + escape + "return new Promise(r => setTimeout(() => r({ data: p.pid }), 300)); })"

// Guards against lines and errors of one run in another's.
func TestAProcessInWhichARunLeftTimersIsNotReused(t *testing.T) {
	if testing.Short() {
		t.Skip("its time goes into Node")
	}
	tests := []struct{ name, left string }{
		{name: "a line", left: "setInterval(() => console.log('of another'), 20)"},
		{name: "an error", left: "setTimeout(() => { throw new Error('of another'); }, 100)"},
		{name: "an immediate", left: escape + "const again = () => get('timers').setImmediate(again); again()"},
		{name: "a socket", left: escape + "get('dgram').createSocket('udp4').bind(0)"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, Config{Reuse: 20})
			requireSuccess(t, b.Job("fn(s => { "+tt.left+"; return s; })", ofOneProject))
			record := b.Job(sayPID, ofOneProject)
			requireSuccess(t, record)
			require.Empty(t, runtest.Lines(t, record, "JOB"))
			next := b.Job(sayPID, ofOneProject)
			requireSuccess(t, next)
			require.Equal(t, string(record.FinalState), string(next.FinalState), "one that leaves nothing is")
		})
	}
}

func requireSuccess(t *testing.T, record mockserver.RunRecord) {
	t.Helper()
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
}
