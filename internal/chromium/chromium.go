// Package chromium has tests look at pages in a real browser. It speaks the few commands of the DevTools protocol that they
// need; the libraries for it compile some hundred thousand generated lines, for which CI has no time.
//
// A test is skipped where there is no Chromium, and fails where CI is set. A page that the browser complains about, for
// the policy that came with it or an error of its script, fails its test.
package chromium

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"
)

// patience is for what should take moments, and a busy machine some seconds.
const patience = 60 * time.Second

// Browser is a running Chromium. It is used by one goroutine.
type Browser struct {
	conn *websocket.Conn
	last int // id of the last command
}

// Start returns a browser that ends with the test.
func Start(t *testing.T) *Browser {
	t.Helper()
	program, err := exec.LookPath("chromium")
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal("no chromium in PATH, and CI is set: .ci/run installs it")
		}
		t.Skip(`no chromium in PATH: this page is not looked at in a browser; with Debian, "apt-get install chromium"`)
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(t.Context()), 2*patience)
	//nolint:gosec // what PATH names
	command := exec.CommandContext(ctx, program, "--headless", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--disable-quic",
		"--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--disable-extensions",
		"--hide-scrollbars", "--user-data-dir="+t.TempDir(), "--remote-debugging-port=0", "about:blank")
	command.WaitDelay = time.Second
	stderr, err := command.StderrPipe()
	require.NoError(t, err)
	require.NoError(t, command.Start())
	var reading sync.WaitGroup
	t.Cleanup(func() {
		stop()
		reading.Wait()
		_ = command.Wait() // it was killed
	})
	address := make(chan string, 1)
	reading.Go(func() {
		defer close(address)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if url, found := strings.CutPrefix(lines.Text(), "DevTools listening on "); found {
				address <- url
			}
		}
	})
	url, found := <-address
	require.True(t, found, "chromium ended before it listened")
	conn, response, err := websocket.DefaultDialer.Dial(url, nil)
	require.NoError(t, err)
	require.NoError(t, response.Body.Close())
	t.Cleanup(func() { _ = conn.Close() })
	return &Browser{conn: conn}
}

// message is an answer, or an event.
type message struct {
	ID        int             `json:"id"`
	Method    string          `json:"method"`
	SessionID string          `json:"sessionId"`
	Params    json.RawMessage `json:"params"`
	Result    json.RawMessage `json:"result"`
	Error     *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// Page is a tab of a browser.
type Page struct {
	t        *testing.T
	browser  *Browser
	session  string
	troubles []string // what the browser complained about
}

// Open opens a tab with an address, as wide and high as it is to be.
func (b *Browser) Open(t *testing.T, url string, width, height int) *Page {
	t.Helper()
	p := &Page{t: t, browser: b}
	var target struct{ TargetID string }
	p.ask("Target.createTarget", map[string]any{"url": "about:blank"}, &target)
	var attached struct{ SessionID string }
	p.ask("Target.attachToTarget", map[string]any{"targetId": target.TargetID, "flatten": true}, &attached)
	p.session = attached.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.ask(domain+".enable", nil, nil)
	}
	p.ask("Emulation.setDeviceMetricsOverride", map[string]any{"width": width, "height": height, "deviceScaleFactor": 1, "mobile": false}, nil)
	p.Go(url)
	t.Cleanup(func() {
		require.Empty(t, p.troubles, "the browser complains")
		p.session = ""
		p.ask("Target.closeTarget", map[string]any{"targetId": target.TargetID}, nil)
	})
	return p
}

// Go goes to an address, and returns when its document is there.
func (p *Page) Go(url string) {
	p.t.Helper()
	p.ask("Page.navigate", map[string]any{"url": url}, nil)
	p.Await(`document.readyState === "complete"`)
}

// Dark has the page shown as who likes dark ones sees it.
func (p *Page) Dark() {
	p.t.Helper()
	p.ask("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": "dark"}}}, nil)
}

// Text returns what a JavaScript expression comes to, as a text.
func (p *Page) Text(expression string) string {
	p.t.Helper()
	text, problem := p.evaluate(expression)
	require.Empty(p.t, problem, expression)
	return text
}

// Do has a JavaScript statement done.
func (p *Page) Do(statement string) {
	p.t.Helper()
	_ = p.Text(statement + "; ''")
}

// Await returns when a JavaScript expression is true.
func (p *Page) Await(expression string) {
	p.t.Helper()
	for end := time.Now().Add(patience); ; time.Sleep(20 * time.Millisecond) {
		text, problem := p.evaluate("Boolean(" + expression + ")")
		if text == "true" {
			return
		}
		if time.Now().After(end) {
			body, _ := p.evaluate("document.body.innerText")
			require.FailNow(p.t, "this did not come to be true", "%s %s\n%s", expression, problem, body)
		}
	}
}

// Submit presses a button that sends a form, by a selector, and returns when the next document is there.
func (p *Page) Submit(selector string) {
	p.t.Helper()
	p.Do(`window.before = true; document.querySelector(` + quote(selector) + `).click()`)
	p.Await(`!window.before && document.readyState === "complete"`)
}

// Fill writes a text into a field, by a selector.
func (p *Page) Fill(selector, text string) {
	p.t.Helper()
	p.Do(`document.querySelector(` + quote(selector) + `).value = ` + quote(text))
}

// Screenshot returns the page as PNG.
func (p *Page) Screenshot() []byte {
	p.t.Helper()
	var shot struct{ Data []byte }
	p.ask("Page.captureScreenshot", map[string]any{"format": "png", "optimizeForSpeed": false}, &shot)
	return shot.Data
}

func quote(text string) string {
	literal, _ := json.Marshal(text) // a string always encodes
	return string(literal)
}

// evaluate returns what an expression comes to, or what went wrong, such as a document that was just replaced.
func (p *Page) evaluate(expression string) (text, problem string) {
	var result struct {
		Result           struct{ Value any }
		ExceptionDetails *struct {
			Text      string
			Exception struct{ Description string }
		}
	}
	if err := p.try("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true, "userGesture": true}, &result); err != "" {
		return "", err
	}
	if e := result.ExceptionDetails; e != nil {
		return "", e.Text + " " + e.Exception.Description
	}
	return fmt.Sprint(result.Result.Value), ""
}

func (p *Page) ask(method string, params, result any) {
	p.t.Helper()
	require.Empty(p.t, p.try(method, params, result), method)
}

// try sends a command and reads until its answer, which it puts into result; it returns the error of the browser.
func (p *Page) try(method string, params, result any) (problem string) {
	p.t.Helper()
	b := p.browser
	b.last++
	command := map[string]any{"id": b.last, "method": method}
	if params != nil {
		command["params"] = params
	}
	if p.session != "" {
		command["sessionId"] = p.session
	}
	require.NoError(p.t, b.conn.WriteJSON(command))
	require.NoError(p.t, b.conn.SetReadDeadline(time.Now().Add(patience)))
	for {
		var m message
		require.NoError(p.t, b.conn.ReadJSON(&m))
		p.note(m)
		if m.ID != b.last {
			continue
		}
		if m.Error != nil {
			return m.Error.Message
		}
		if result != nil {
			require.NoError(p.t, json.Unmarshal(m.Result, result))
		}
		return ""
	}
}

// note keeps what the browser complains about.
func (p *Page) note(m message) {
	if m.SessionID != p.session {
		return
	}
	switch m.Method {
	case "Runtime.exceptionThrown", "Log.entryAdded":
		p.troubles = append(p.troubles, string(m.Params))
	case "Runtime.consoleAPICalled":
		p.troubles = append(p.troubles, string(m.Params))
	}
}

// Expect takes a complaint of the browser, which holds the text, for what a test wants to see.
func (p *Page) Expect(text string) {
	p.t.Helper()
	for i, trouble := range p.troubles {
		if strings.Contains(trouble, text) {
			p.troubles = append(p.troubles[:i], p.troubles[i+1:]...)
			return
		}
	}
	require.Fail(p.t, "the browser did not complain", "%s: %v", text, p.troubles)
}
