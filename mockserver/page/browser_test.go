package page

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/examples"
	"github.com/phxworker/phxworker/internal/chromium"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/slots"
)

// live is a server with a worker, and a browser.
type live struct {
	*mockserver.Server

	t       *testing.T
	browser *chromium.Browser
}

func newLive(t *testing.T) *live {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser is slow, and has no goroutines of ours to look at")
	}
	browser := chromium.Start(t)
	server := mockserver.NewTest(t, mockserver.Config{Page: New(examples.Files()), OpaqueTokens: true, WakeDebounce: -1, TranscriptLimit: 10_000})
	worker, err := phxworker.New(phxworker.Config{
		URL: server.URL(), Secret: server.Secret(), Engine: js.New(js.Config{}), Groups: slots.MustParse("fast_lane:1 manual>*:4"), Name: "tester",
	})
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- worker.Run(ctx) }()
	t.Cleanup(func() {
		worker.Abort()
		stop()
		<-ended
	})
	return &live{Server: server, t: t, browser: browser}
}

func (l *live) open(t *testing.T, path string) *chromium.Page {
	t.Helper()
	return l.browser.Open(t, l.HTTPURL()+path, 1000, 700)
}

// queue queues a run with one job.
func (l *live) queue(id, body string) {
	l.t.Helper()
	plan, _ := json.Marshal(map[string]any{
		"id": id, "name": "Stock-taking " + id,
		"jobs": []any{map[string]any{"id": "count-" + id, "name": "Count " + id, "adaptor": "@openfn/language-common", "body": body}},
	})
	_, err := l.Enqueue(mockserver.Run{Plan: plan, Queue: "manual"})
	require.NoError(l.t, err)
}

func has(text string) string {
	literal, _ := json.Marshal(text)
	return "document.body.innerText.includes(" + string(literal) + ")"
}

// One test is one browser, since the start of one takes most of the time.
func TestInABrowser(t *testing.T) {
	l := newLive(t)
	const evil = `<img src=x onerror="window.struck=1">`

	t.Run("the list grows while runs come", func(t *testing.T) {
		p := l.open(t, "/")
		p.Await(has("1 worker"))
		p.Do("window.same = true")
		for i := range 3 {
			id := fmt.Sprint("grows-", i)
			l.queue(id, "fn(s => s)")
			p.Await(has(id) + ` && document.querySelector("#runs tbody tr").innerText.includes("success")`)
		}
		require.Equal(t, "true", p.Text("window.same"), "without a reload")
	})
	t.Run("a run's page while it executes", func(t *testing.T) {
		l.queue("slow", "fn(async s => { console.log('counting', 42); while (!globalThis.never) await new Promise(r => setTimeout(r, 10)); })")
		p := l.open(t, "/page/run?id=slow")
		p.Await(has("counting 42") + " && " + has("▸ running") + " && " + has("step Count slow"))
		p.Do(`document.querySelector("#steps summary").click()`)
		_, err := l.AddFault(ruleOf(t, `{"event":"now","action":"close","code":1011}`))
		require.NoError(t, err)
		l.queue("other", "fn(s => s)")
		require.NoError(t, l.ExpireToken("slow"))
		p.Await(`document.querySelector("#line").innerText.includes("fault")`)
		require.Equal(t, "true", p.Text(`document.querySelector("#in-1").open`), "what was unfolded stays so")
	})
	t.Run("run again with another input", func(t *testing.T) {
		l.queue("first", "fn(s => { if (!s.ok) {\n  throw new Error('not ok');\n} return s; })")
		p := l.open(t, "/page/run?id=first")
		p.Await(has("✗ failed") + ` && document.querySelector(".wrong").innerText.includes("2 ▶")`)
		p.Fill("#input", `{"ok":`)
		p.Submit("#h-again + form button")
		p.Await(has("It is not JSON: line 1"))
		p.Expect("422")
		p.Fill("#input", `{"ok":true}`)
		p.Submit("#h-again + form button")
		p.Await(has("✓ success") + ` && !location.search.includes("first")`)
	})
	t.Run("a fault is switched on and strikes", func(t *testing.T) {
		p := l.open(t, "/page/faults")
		p.Do(`document.querySelector("[name=event]").value = "run:start"; document.querySelector("[name=action]").value = "double"`)
		p.Submit(".fields button")
		p.Await(has(`"action":"double"`))
		l.queue("struck", "fn(s => s)")
		p.Await(has("double after run:start") + ` && document.querySelector("#strikes a").innerText === "struck"`)
		p.Submit(`#rules [aria-label^="Switch off"]`)
		p.Go(l.HTTPURL() + "/page/run?id=struck")
		p.Await(has("struck run:start: double, after"))
	})
	t.Run("a plan with a mistake", func(t *testing.T) {
		p := l.open(t, "/page/queue")
		p.Fill("#plan", `{"jobs":[{"id":"a"},{"id":"a"}]}`)
		p.Submit("button.main")
		p.Await(has("jobs[1].id has already been taken") + ` && document.querySelector("#plan[aria-invalid]").value.includes('"id":"a"')`)
		p.Expect("422")
		p.Do(`const choice = document.querySelector("[name=example]"); window.before = true; choice.value = "hello"; choice.dispatchEvent(new Event("change"))`)
		p.Await(`!window.before && document.readyState === "complete" && document.querySelector("#plan").value.includes("hello, world")`)
		p.Submit("button.main")
		p.Await(has("✓ success"))
	})
	t.Run("no script of a run is one of the page", func(t *testing.T) {
		l.queue(evil, "fn(s => { console.log("+"`"+evil+"`"+"); throw new Error("+"`"+evil+"`"+"); })")
		p := l.open(t, "/page/faults")
		for _, path := range []string{"/page/run?id=" + url.QueryEscape(evil), "/?q=onerror", "/page/workers"} {
			p.Go(l.HTTPURL() + path)
			p.Await(`document.documentElement.dataset.renewed`)
			if path != "/page/workers" {
				p.Await(has("failed") + " && " + has("onerror"))
			}
			require.Equal(t, "undefined 0", p.Text(`window.struck + " " + document.querySelectorAll("img").length`))
		}
	})
	// Guards against tabs that nobody looks at: six of them held all connections that a browser has to a server.
	t.Run("a tab that is hidden holds no connection", func(t *testing.T) {
		p := l.open(t, "/")
		show := func(hidden bool) {
			p.Do(fmt.Sprintf(`Object.defineProperty(document, "hidden", { value: %v, configurable: true }); document.dispatchEvent(new Event("visibilitychange"))`, hidden))
		}
		p.Await("events?.readyState === 1")
		show(true)
		require.Equal(t, "true", p.Text("events === null"))
		l.queue("unseen", "fn(s => s)")
		show(false)
		p.Await("events?.readyState === 1 && " + has("unseen"))
	})
	t.Run("a keyboard and a phone are enough", func(t *testing.T) {
		p := l.browser.Open(t, l.HTTPURL()+"/page/run?id=first", 380, 800)
		require.Equal(t, "true", p.Text(`document.documentElement.scrollWidth <= 380`), "nothing stands out to the side")
		require.Equal(t, "0", p.Text(`[...document.querySelectorAll("[onclick], [tabindex]:not([tabindex='0'])")].length`))
	})
}

// The pictures of the README. They are made anew with PHXWORKER_SCREENSHOTS=docs/images, to be looked at before they are committed.
func TestPictures(t *testing.T) {
	dir := os.Getenv("PHXWORKER_SCREENSHOTS")
	if dir == "" {
		t.Skip("PHXWORKER_SCREENSHOTS names no folder to put pictures into")
	}
	l := newLive(t)
	all, err := examples.All()
	require.NoError(t, err)
	for _, e := range all {
		_, err := l.Dispatch(t.Context(), mockserver.Run{Plan: e.Plan, Queue: e.Queue, Dataclip: e.Dataclip, Credentials: e.Credentials})
		require.NoError(t, err)
	}
	for name, path := range map[string]string{"run": "/page/run?id=fail-and-recover", "runs": "/"} {
		p := l.browser.Open(t, l.HTTPURL()+path, 860, 780)
		picture := small(t, p.Screenshot())
		require.Less(t, len(picture), 60<<10, name)
		require.NoError(t, os.WriteFile(filepath.Join(dir, name+".png"), picture, 0o600))
	}
}

// small returns a picture with the 64 colors that are most in it, in a fraction of the bytes.
func small(t *testing.T, picture []byte) []byte {
	t.Helper()
	img, err := png.Decode(bytes.NewReader(picture))
	require.NoError(t, err)
	seen := make(map[color.Color]int)
	for y := range img.Bounds().Dy() {
		for x := range img.Bounds().Dx() {
			seen[img.At(x, y)]++
		}
	}
	colors := slices.SortedFunc(maps.Keys(seen), func(a, b color.Color) int { return seen[b] - seen[a] })
	out := image.NewPaletted(img.Bounds(), colors[:min(len(colors), 64)])
	draw.Draw(out, img.Bounds(), img, image.Point{}, draw.Src)
	var encoded bytes.Buffer
	require.NoError(t, (&png.Encoder{CompressionLevel: png.BestCompression}).Encode(&encoded, out))
	return encoded.Bytes()
}
