package recorded

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/openfn"
)

// Guards against runs that end in success with other data: what the choice between the engines gives to the
// embedded one comes to the same in Node. testdata/uses.js has a job in each paragraph.
func TestWhatIsAcceptedIsTheSame(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, nearly all of it in Node")
	}
	runtest.Need(t, "node")
	node, err := openfn.New(openfn.Config{RepoDir: runtest.Adaptors(t), Reuse: 1000})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Close()) })
	embedded := js.New(js.Config{})
	text, err := os.ReadFile("testdata/uses.js")
	require.NoError(t, err)
	w := runtest.New(t, nil)
	accepted, refused := 0, 0
	for body := range strings.SplitSeq(strings.TrimSpace(string(text)), "\n\n") {
		if strings.HasPrefix(body, "//") {
			continue
		}
		plan := &runner.Plan{Jobs: []runner.Job{{ID: "a", Adaptor: "@openfn/language-common@3.3.4", Body: body}}}
		if why := embedded.CanRun(t.Context(), &runner.Run{Plan: plan}); why != nil {
			t.Logf("for Node: %s\n\t%v", body, why)
			refused++
			continue
		}
		accepted++
		w.T = t
		w.Engine = embedded
		ours := outcomeOfUse(w, body)
		w.Engine = node
		require.Equal(t, outcomeOfUse(w, body), ours, body)
	}
	t.Logf("%d are the same, %d are for Node", accepted, refused)
	require.Greater(t, accepted, 60, "nothing is compared")
}

type outcomeOfOneUse struct {
	Reason, State string
	Said          []string
}

func outcomeOfUse(w *runtest.Bench, body string) outcomeOfOneUse {
	run := runtest.OneJob(body, `"project_id":"p"`)
	run.Dataclip = json.RawMessage(`{"data":{"l":[1,2],"o":[{"n":1,"t":"a"},{"n":2,"t":"b"}],"s":"text","z":null,"deep":{"er":{"x":[{"y":1},{"y":[2,3]}]}}},"extra":[5,6],"references":[{"r":1}]}`)
	record := w.Run(w.T.Context(), runner.Limits{}, run)
	out := outcomeOfOneUse{Reason: record.Reason, Said: append(runtest.Lines(w.T, record, "JOB"), runtest.Lines(w.T, record, "ADA")...)}
	if record.Reason == "success" {
		out.State = string(record.FinalState)
	}
	return out
}
