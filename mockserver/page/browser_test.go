package page

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
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

func (l *live) open(path string) *chromium.Page {
	l.t.Helper()
	return l.browser.Open(l.t, l.HTTPURL()+path, 1000, 700)
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
		p := l.open("/")
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
		p := l.open("/page/run?id=slow")
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
		p := l.open("/page/run?id=first")
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
		p := l.open("/page/faults")
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
		p := l.open("/page/queue")
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
		for _, path := range []string{"/page/run?id=" + url.QueryEscape(evil), "/?q=onerror", "/page/workers"} {
			p := l.open(path)
			p.Await(`document.documentElement.dataset.renewed`)
			if path != "/page/workers" {
				p.Await(has("failed") + " && " + has("onerror"))
			}
			require.Equal(t, "undefined 0", p.Text(`window.struck + " " + document.querySelectorAll("img").length`))
		}
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
		for _, theme := range []string{"", "-dark"} {
			p := l.browser.Open(t, "about:blank", 860, 620)
			if theme != "" {
				p.Dark()
			}
			p.Go(l.HTTPURL() + path)
			picture := p.Screenshot()
			file := filepath.Join(dir, name+theme+".png")
			require.Less(t, len(picture), 150_000, file)
			require.NoError(t, os.WriteFile(file, picture, 0o600))
			require.False(t, strings.Contains(p.Text("document.body.innerText"), "ZgotmplZ"))
		}
	}
}
