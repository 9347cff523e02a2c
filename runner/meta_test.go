package runner

import (
	"bytes"
	"log/slog"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestMeta(t *testing.T) {
	began := time.Date(2026, 8, 1, 12, 0, 0, 5_900_000, time.FixedZone("", 7200))
	const head = `{"runId":"r","startTime":"2026-08-01T10:00:00.005Z"`
	for name, tt := range map[string]struct{ plan, want string }{
		"nothing":               {`{"id":"r","jobs":[]}`, head + `}`},
		"all":                   {`{"id":"r","jobs":[],"meta":{"work_order_id":"o","workflow_id":"w","project_id":"p","other":1}}`, head + `,"workOrderId":"o","workflowId":"w","projectId":"p"}`},
		"the plan's project":    {`{"id":"r","jobs":[],"project_id":"q","meta":{"project_id":"p"}}`, head + `,"projectId":"q"}`},
		"what cannot be read":   {`{"id":"r","jobs":[],"meta":"none"}`, head + `}`},
		"null is as good as no": {`{"id":"r","jobs":[],"meta":null,"project_id":null}`, head + `}`},
	} {
		t.Run(name, func(t *testing.T) {
			plan, err := ParsePlan([]byte(tt.plan))
			require.NoError(t, err)
			require.JSONEq(t, tt.want, string((&Run{ID: "r", Plan: plan}).Meta(began)))
		})
	}
}

func TestTheLogTellsTheProjectOfARun(t *testing.T) {
	onWire(t, func(t *testing.T, w *wire) {
		var out bytes.Buffer
		w.run(Config{Engine: Func(success), Logger: slog.New(slog.NewTextHandler(&out, nil))}, planOf(`,"meta":{"project_id":"clinic"}`))
		require.Regexp(t, `msg="run complete".* project_id=clinic`, out.String())
	})
}
