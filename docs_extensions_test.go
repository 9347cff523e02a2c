package phxworker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

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

// The frames that a page shows are on the wire, in that order.
func TestThePagesShowWhatIsOnTheWire(t *testing.T) {
	for _, session := range sessions {
		t.Run(session.page, func(t *testing.T) {
			shown := shownFrames(t, session.page)
			require.NotEmpty(t, shown, "no frames in the page")
			frames := play(t, session.extensions, session.prefetch, session.happens)
			rest := frames
			for _, line := range shown {
				at := indexOf(rest, essence(line))
				require.GreaterOrEqual(t, at, 0, "not on the wire, or not in this order: %s\n\nthe session:\n%s", line, strings.Join(frames, "\n"))
				rest = rest[at+1:]
			}
		})
	}
}

func indexOf(frames []string, essential string) int {
	for i, line := range frames {
		if essence(line) == essential {
			return i
		}
	}
	return -1
}

// shownFrames returns the frames of a page, each with refs that fit: a reply has those of
// its push.
func shownFrames(t *testing.T, page string) (lines []string) {
	t.Helper()
	pushed := make(map[string]bool)
	for line := range strings.SplitSeq(readPage(t, page), "\n") {
		arrow, data, found := strings.Cut(line, " ")
		if !found || arrow != "→" && arrow != "←" {
			continue
		}
		f, err := frame.DecodePush([]byte(data), false)
		require.NoError(t, err, "%s: %s", page, line)
		key := fmt.Sprint(f.JoinRef, f.Ref, f.Topic)
		if arrow == "→" {
			require.False(t, pushed[key], "%s: a ref twice: %s", page, line)
			pushed[key] = true
		} else if f.Event == "phx_reply" {
			require.True(t, pushed[key], "%s: no push has the refs of %s", page, line)
		}
		lines = append(lines, line)
	}
	return lines
}

func readPage(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("docs", "extensions", page))
	require.NoError(t, err)
	return string(text)
}

// The Elixir of a page is that of the example, line by line, which is tested.
func TestTheElixirOfThePagesIsThatOfTheExample(t *testing.T) {
	var example strings.Builder
	files, err := filepath.Glob("examples/phoenix/lib/*.ex")
	require.NoError(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		require.NoError(t, err)
		example.Write(text)
	}
	known := make(map[string]bool)
	for line := range strings.Lines(example.String()) {
		known[strings.TrimSpace(line)] = true
	}
	pages, err := filepath.Glob("docs/extensions/*.md")
	require.NoError(t, err)
	block := regexp.MustCompile("(?s)```elixir\n(.*?)```")
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		blocks := block.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, blocks, "no Elixir in %s", page)
		for _, b := range blocks {
			for line := range strings.Lines(b[1]) {
				require.True(t, known[strings.TrimSpace(line)], "%s: not in the example: %s", page, line)
			}
		}
	}
}

// Each extension has a page, and each page that shows a session is checked.
func TestEachExtensionHasItsPage(t *testing.T) {
	pages := map[string]bool{"README.md": true, "pool.md": true}
	for _, name := range KnownExtensions() {
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
