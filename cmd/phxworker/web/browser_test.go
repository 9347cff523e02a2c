package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image/color"
	"image/png"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/chromium"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/slots"
)

// patient is for what should take moments, and a browser some seconds.
const patient = 60 * time.Second

// holding holds runs named busy… in their first job, and ends all
// others at once, those with an error in their name with one.
func holding(ctx context.Context, run *runner.Run) (any, error) {
	step := run.StartStep(run.Plan.Jobs[0].ID, nil)
	if strings.HasPrefix(run.ID, "busy") {
		<-ctx.Done()
		return nil, context.Cause(ctx)
	}
	result := runner.StepResult{Reason: runner.Success, State: json.RawMessage(`{}`), Leaf: true}
	for _, bad := range []runner.Reason{runner.Fail, runner.Crash, runner.Kill} {
		if strings.Contains(run.ID, string(bad)) {
			result.Reason, result.ErrorType = bad, "RuntimeError"
		}
	}
	step.Complete(result)
	return json.RawMessage(`{}`), nil
}

// liveWorker returns the address of the status page of a worker that has executed
// some runs and has others under way.
func liveWorker(t *testing.T) string {
	t.Helper()
	upstream := mockserver.NewTest(t, mocktest.Config(mockserver.Config{WakeDebounce: -1, OpaqueTokens: true}))
	worker, err := phxworker.New(phxworker.Config{
		URL: upstream.URL(), Secret: upstream.Secret(), Engine: runner.Func(holding), Groups: slots.MustParse("fast_lane:1 manual>*:6"), Name: "browser-test",
	})
	require.NoError(t, err)
	events := worker.Subscribe(1000)
	ctx, cancel := context.WithTimeout(t.Context(), patient)
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:0")
	require.NoError(t, err)
	server := New(worker, Config{Version: "v1.2.3", Commit: "abcdef0"})
	for i := range 100 { // a busy half an hour
		busy := slots.Counts{Size: 7, Running: i % 8}
		server.history.sample(phxworker.Stats{Groups: []phxworker.GroupStats{{Counts: busy}}, Ended: map[phxworker.Reason]int{runner.Success: 3 * i}})
	}
	served := make(chan error, 1)
	go func() { served <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		worker.Abort()
		<-ended
		cancel()
		require.NoError(t, <-served)
	})

	await := func(kind phxworker.EventKind, id string) {
		t.Helper()
		for event := range events.Events() {
			if event.Kind == kind && event.RunID == id {
				return
			}
		}
		require.FailNow(t, "the worker ended before", "%s of %s", kind, id)
	}
	enqueue := func(id string) {
		t.Helper()
		plan := fmt.Sprintf(`{"id":%q,"jobs":[{"id":"load-patients","body":"fn(s => s)"}]}`, id)
		_, err := upstream.Enqueue(mockserver.Run{Plan: json.RawMessage(plan), Queue: "manual"})
		require.NoError(t, err)
	}
	for _, id := range []string{"3b8e6f0a-success-1", "9d2c41f7-fail-2", "55a0c8e2-crash-3", "7e9b03d4-success-4", "c1f6a2b8-kill-5"} {
		enqueue(id)
		await(phxworker.EventCompleted, id)
	}
	for _, id := range []string{"busy1a6e-8a43-4f0d-9d6e-2b1c7a5e9f01", "busy-<script>alert(1)</script>"} {
		enqueue(id)
		await(phxworker.EventStarted, id)
	}
	return "http://" + listener.Addr().String() + "/"
}

func TestThePageInABrowser(t *testing.T) {
	if testing.Short() {
		t.Skip("a browser is slow, and has no goroutines of ours to look at")
	}
	browser := chromium.Start(t)
	address := liveWorker(t)
	page := browser.Open(t, address, 1000, 1000)
	page.Await(`document.documentElement.dataset.live === "yes"`)
	document := page.Text("document.documentElement.outerHTML")
	for _, want := range []string{
		"7 at a time at most, of 7 slots", "Failed last", "Up, on the queue for", "manual&gt;*", "busy1a6e-8a43-4f0d-9d6e-2b1c7a5e9f01", "job load-patients",
		"busy-&lt;script&gt;alert(1)&lt;/script&gt;", "9d2c41f7-fail-2", "crash</span> RuntimeError",
	} {
		require.Contains(t, document, want)
	}
	require.NotContains(t, document, `class="stale"`)

	t.Run("light", func(t *testing.T) { looksLike(t, page, false) })
	page.Dark()
	t.Run("dark", func(t *testing.T) { looksLike(t, page, true) })
	t.Run("phone", func(t *testing.T) { looksLike(t, browser.Open(t, address, 400, 1400), false) })
}

// looksLike asserts that a page is not blank, and dark if it is to be.
func looksLike(t *testing.T, page *chromium.Page, dark bool) {
	t.Helper()
	picture := page.Screenshot()
	img, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	colors := make(map[color.Color]int)
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			colors[img.At(x, y)]++
		}
	}
	require.Greater(t, len(colors), 50, "text, bars and tags have more colors than a blank page")
	corner := color.GrayModel.Convert(img.At(2, 2)).(color.Gray).Y
	require.Equal(t, dark, corner < 128, "the ground is dark where that is asked for")
	if dir := os.Getenv("PHXWORKER_SCREENSHOTS"); dir != "" { // to be looked at
		require.NoError(t, os.WriteFile(filepath.Join(dir, filepath.Base(t.Name())+".png"), picture, 0o600))
	}
}
