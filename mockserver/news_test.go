package mockserver_test

import (
	"bytes"
	"log/slog"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

// A person who watches the server sees workers come and go and runs end, and
// neither tokens nor what an error says.
func TestTheLogTellsOfWorkersAndRuns(t *testing.T) {
	var log bytes.Buffer // written before the replies that the test waits for
	noTime := func(_ []string, a slog.Attr) slog.Attr {
		if a.Key == slog.TimeKey {
			return slog.Attr{}
		}
		return a
	}
	m := newInMemory(t, mockserver.Config{Logger: slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{ReplaceAttr: noTime}))})
	line := func() string {
		defer log.Reset()
		return log.String()
	}

	c := m.worker()
	require.Equal(t, "level=INFO msg=\"worker joined\" worker=mighty-worker capacity=5 queues=\"{\\\"manual>*\\\":5}\"\n", line())
	for _, complete := range []struct{ payload, want string }{
		{`{"reason":"success"}`, "reason=success queue=manual worker_name=w"},
		{`{"reason":"fail","error_type":"JobError","error_message":"patient 7"}`, "reason=fail error_type=JobError queue=manual worker_name=w"},
	} {
		m.enqueue(mockserver.Run{Plan: plan("run-" + complete.want[7:11]), Queue: "manual"})
		run := c.claim(`{"demand":1,"worker_name":"w"}`)[0]
		require.Equal(t, "ok", c.join("run:"+run.ID, `{"token":"`+run.Token+`"}`).Status)
		require.Equal(t, "error", c.exchange("run:"+run.ID, "run:complete", `{"reason":"fine"}`).Status)
		require.Empty(t, line(), "a refused end is none")
		c.ok("run:"+run.ID, "run:complete", complete.payload)
		require.Equal(t, "level=INFO msg=\"run ended\" run_id="+run.ID+" "+complete.want+"\n", line())
		require.Equal(t, "error", c.exchange("run:"+run.ID, "run:complete", complete.payload).Status)
		require.Empty(t, line(), "a run ends once")
	}
	c.ok("worker:queue", "phx_leave", `{}`)
	require.Equal(t, "level=INFO msg=\"worker left\" worker=mighty-worker\n", line())

	c.join("worker:queue", `[]`)
	require.Equal(t, "level=INFO msg=\"worker joined\" worker=mighty-worker\n", line())
}
