package phxworker_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/mockserver/phoenix"
	"github.com/phxworker/phxworker/slots"
)

// A page that names a test, or links to a file, must not outlive it.
func TestThePagesNameWhatIsThere(t *testing.T) {
	tests := make(map[string]bool)
	var pages []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch {
		case strings.HasSuffix(path, "_test.go"):
			source, err := os.ReadFile(path)
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllSubmatch(source, -1) {
				tests[string(m[1])] = true
			}
			return err
		case strings.HasSuffix(path, ".md") && !strings.Contains(path, "testdata"):
			pages = append(pages, path)
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, pages)

	name := regexp.MustCompile("`(Test[A-Z]\\w+)`")
	file := regexp.MustCompile("`((?:channel|claim|slots|runner|mockserver|cmd|docs|examples)/[\\w/.-]*\\w)`")
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range name.FindAllSubmatch(text, -1) {
			require.True(t, tests[string(m[1])], "%s names the test %s", page, m[1])
		}
		for _, m := range file.FindAllSubmatch(text, -1) {
			_, err := os.Stat(string(m[1]))
			require.NoError(t, err, "%s names %s", page, m[1])
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join(filepath.Dir(page), string(m[1])))
			require.NoError(t, err, "%s links to %s", page, m[1])
		}
	}
}

// written returns a transcript as the pages have it, one frame a line.
func written(t *testing.T, transcript []mockserver.Exchange) (lines []string) {
	t.Helper()
	for _, exchange := range transcript {
		if exchange.Binary {
			continue
		}
		arrow := "→ "
		if exchange.Direction == phoenix.ToClient {
			arrow = "← "
		}
		lines = append(lines, arrow+string(bytes.TrimSpace(exchange.Data)))
	}
	return lines
}

// frameLine is a frame in a page.
var frameLine = regexp.MustCompile(`(?m)^[→←] \[.*$`)

// What differs from one session to the next.
var (
	anyToken = regexp.MustCompile(`"token":"[^"]*"`)
	anyTime  = regexp.MustCompile(`"timestamp":"[0-9]*"`)
	anyRefs  = regexp.MustCompile(`^(. \[)(?:"\d+"|(null)),(?:"\d+"|(null)),`)
)

// essence is a frame without what differs; of its refs it is whether they are null.
func essence(line string) string {
	line = anyToken.ReplaceAllString(line, `"token":"…"`)
	line = anyTime.ReplaceAllString(line, `"timestamp":"…"`)
	return anyRefs.ReplaceAllString(line, `$1$2,$3,`)
}

// The frames that a page shows are on the wire, those of each side in that order: what both
// do at one moment, as when a lease ends, comes in either.
func TestThePagesShowWhatIsOnTheWire(t *testing.T) {
	for _, session := range sessions {
		t.Run(session.page, func(t *testing.T) {
			shown := frameLine.FindAllString(readPage(t, session.page), -1)
			require.NotEmpty(t, shown, "no frames in the page")
			frames := play(t, session.extensions, session.prefetch, session.happens)
			rest := map[string][]string{"→": frames, "←": frames}
			for _, line := range shown {
				side, _, _ := strings.Cut(line, " ")
				at := slices.IndexFunc(rest[side], func(frame string) bool { return essence(frame) == essence(line) })
				require.GreaterOrEqual(t, at, 0, "not on the wire, or not in this order: %s\n\nthe session:\n%s", line, strings.Join(frames, "\n"))
				rest[side] = rest[side][at+1:]
			}
		})
	}
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	return readAll(t, filepath.Join("docs", "extensions", page))[filepath.Join("docs", "extensions", page)]
}

// The Elixir of a page is that of the example, line by line, which is tested.
func TestTheElixirOfThePagesIsThatOfTheExample(t *testing.T) {
	known := make(map[string]bool)
	for _, text := range readAll(t, "examples/phoenix/lib/*.ex") {
		for line := range strings.Lines(text) {
			known[strings.TrimSpace(line)] = true
		}
	}
	block := regexp.MustCompile("(?s)```elixir\n(.*?)```")
	for page, text := range readAll(t, "docs/extensions/*.md") {
		blocks := block.FindAllStringSubmatch(text, -1)
		require.NotEmpty(t, blocks, "no Elixir in %s", page)
		for _, b := range blocks {
			for line := range strings.Lines(b[1]) {
				require.True(t, known[strings.TrimSpace(line)], "%s: not in the example: %s", page, line)
			}
		}
	}
}

// readAll returns the texts of files by their names.
func readAll(t *testing.T, pattern string) map[string]string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	require.NoError(t, err)
	texts := make(map[string]string)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		texts[file] = string(text)
	}
	return texts
}

// Each extension has a page, and each page that shows a session is checked.
func TestEachExtensionHasItsPage(t *testing.T) {
	pages := map[string]bool{"README.md": true, "pool.md": true}
	for _, name := range phxworker.KnownExtensions() {
		page := strings.ReplaceAll(name, "_", "-") + ".md"
		pages[page] = true
		require.Contains(t, readPage(t, page), "`"+name+"`")
		require.Contains(t, readPage(t, "README.md"), "]("+page+")")
	}
	for _, session := range sessions {
		require.True(t, pages[session.page])
		delete(pages, session.page)
	}
	require.Equal(t, map[string]bool{"pool.md": true}, pages)
}

// sessions are what the pages of docs/extensions show: a worker that offers some of
// the extensions, and what happens to it. The frames of a page are those of its session,
// some left out.
var sessions = []struct {
	page       string
	extensions []string
	prefetch   bool
	happens    func(h *house, worker *phxworker.Worker)
}{
	{page: "README.md", extensions: []string{"lease", "drain"}, happens: func(h *house, _ *phxworker.Worker) {
		h.enqueue("manual", "run-1")
		settle(time.Second)
		h.gate.release("run-1")
	}},
	{page: "lease.md", extensions: []string{"lease"}, happens: func(h *house, _ *phxworker.Worker) {
		h.enqueueLong("run-1")
		settle(18 * time.Minute)
		h.gate.release("run-1")
		settle(time.Second)

		h.enqueueLong("run-2")
		settle(time.Second)
		_, err := h.server.AddFault(fault.Rule{Event: "run:renew", Action: fault.Withhold, When: fault.Before, Count: -1})
		require.NoError(h.t, err)
		settle(21 * time.Minute)
		h.returns("run-2")
		h.gate.release("run-2")
	}},
	{page: "attempt.md", extensions: []string{"attempt", "release"}, happens: func(h *house, _ *phxworker.Worker) {
		h.enqueue("manual", "run-1")
		for range 3 {
			settle(5 * time.Second)
			h.gate.of("run-1") <- phxworker.ErrRequeue
		}
		settle(5 * time.Second)
	}},
	{page: "release.md", extensions: []string{"release", "attempt", "lease"}, prefetch: true, happens: func(h *house, _ *phxworker.Worker) {
		h.enqueue("manual", "run-1")
		settle(time.Second)
		h.gate.of("run-1") <- fmt.Errorf("the register is being updated: %w", phxworker.ErrRequeue)
		settle(time.Second)
		h.gate.of("run-2") <- phxworker.Postpone(time.Hour, "")
		h.enqueue("manual", "run-2")
		settle(5 * time.Second)

		// run-1 is executed again; the next is claimed ahead, and waits.
		h.enqueue("manual", "run-3")
		settle(12 * time.Second)
		h.gate.release("run-1")
		settle(time.Second)
		h.returns("run-3")
		settle(10 * time.Second)
		h.gate.release("run-3")
	}},
	{page: "longpoll.md", extensions: []string{"longpoll", "status"}, happens: func(h *house, _ *phxworker.Worker) {
		settle(17 * time.Second)
		h.enqueue("manual", "run-1")
		settle(time.Second)
		h.gate.release("run-1")
		settle(25 * time.Second)
	}},
	{page: "claim-ack.md", extensions: []string{"claim_ack", "attempt"}, happens: func(h *house, _ *phxworker.Worker) {
		h.enqueue("manual", "run-1")
		settle(time.Second)
		h.gate.release("run-1")
	}},
	{page: "status.md", extensions: []string{"status"}, happens: func(h *house, worker *phxworker.Worker) {
		h.enqueue("manual", "run-1")
		settle(20 * time.Second)
		worker.Drain()
		settle(time.Second)
		h.gate.release("run-1")
	}},
	{page: "drain.md", extensions: []string{"drain"}, happens: func(h *house, _ *phxworker.Worker) {
		h.enqueue("manual", "run-1")
		settle(time.Second)
		require.Equal(h.t, 1, h.server.DrainWorkers())
		settle(time.Second)
		h.gate.release("run-1")
	}},
	{page: "cancel.md", extensions: []string{"cancel"}, happens: func(h *house, _ *phxworker.Worker) {
		h.enqueue("manual", "run-1")
		settle(time.Second)
		require.NoError(h.t, h.server.Cancel("run-1", "The order was withdrawn"))
	}},
	{page: "notify.md", extensions: []string{"notify"}, happens: func(h *house, _ *phxworker.Worker) {
		h.enqueue("manual", "run-1")
		settle(time.Second)
		require.NoError(h.t, h.server.Notify("run-1", json.RawMessage(`{"stock":3}`)))
		settle(time.Second)
		h.gate.release("run-1")
	}},
}

// enqueueLong makes a run that may take an hour.
func (h *house) enqueueLong(id string) {
	h.t.Helper()
	plan := fmt.Sprintf(`{"id":%q,"jobs":[],"options":{"run_timeout_ms":3600000}}`, id)
	h.put(mockserver.Run{Plan: json.RawMessage(plan), Queue: "manual"})
}

// returns has a worker that was away come back to a run, with the token that it once
// had: a rejoin, as it was written before the worker knew.
func (h *house) returns(id string) {
	h.t.Helper()
	var token string
	for _, f := range h.sent(frame.Join) {
		if f.topic == "run:"+id {
			var payload struct{ Token string }
			require.NoError(h.t, json.Unmarshal([]byte(f.payload), &payload))
			token = payload.Token
			break
		}
	}
	require.NotEmpty(h.t, token, "%s was never joined", id)
	socket, err := channel.Open(channel.Config{
		URL: "ws://lightning.test/worker", NetDial: h.dial, Params: phxworker.SocketParams(h.server.Secret(), "frozen", "dev"),
	})
	require.NoError(h.t, err)
	defer func() { require.NoError(h.t, socket.Close()) }()
	_, err = socket.Join(h.t.Context(), "run:"+id, map[string]string{"token": token})
	var refused *channel.RefusedError
	require.ErrorAs(h.t, err, &refused)
	require.Equal(h.t, "lease_lost", refused.Reason())
}

// play returns the frames of a session, as the pages have them.
func play(t *testing.T, extensions []string, prefetch bool, happens func(*house, *phxworker.Worker)) (frames []string) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		h := openHouse(t, mockserver.Config{Mode: mockserver.Extended, OpaqueTokens: true})
		worker, stop := h.hire(phxworker.Config{Groups: slots.MustParse("manual>*:1"), Extensions: extensions, Claim: phxworker.Claim{Prefetch: prefetch}})
		settle(time.Second)
		happens(h, worker)
		settle(time.Second)
		if err := stop(); err != nil {
			require.ErrorIs(t, err, context.Canceled)
		}
		frames = written(t, h.server.Transcript())
	})
	return frames
}
