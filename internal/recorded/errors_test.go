package recorded

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/openfn"
)

var update = flag.Bool("update", false, "write what is kept of Node in testdata anew, with Node 20")

// everyInNode is of how many jobs or plans one is executed in Node each time.
const everyInNode = 20

// ofNode returns what each of so many jobs or plans comes to in Node, by outcome, as it is kept in a file of testdata. A part of
// them is executed there.
func ofNode(t *testing.T, file string, count int, outcome func(b *runtest.Bench, i int) string) []string {
	t.Helper()
	golden := filepath.Join("testdata", file)
	text, err := os.ReadFile(golden)
	require.NoError(t, err)
	kept := strings.Split(strings.TrimSpace(string(text)), "\n")
	t.Run("openfn", func(t *testing.T) {
		runtest.Need(t, "node")
		if testing.Short() {
			t.Skip("nearly all of its time goes into Node")
		}
		e, err := openfn.New(openfn.Config{RepoDir: runtest.Adaptors(t), Spares: 1, Reuse: count})
		require.NoError(t, err)
		t.Cleanup(func() { require.NoError(t, e.Close()) })
		b := runtest.New(t, e)
		if *update {
			kept = kept[:0]
			for i := range count {
				kept = append(kept, outcome(b, i))
			}
			require.NoError(t, os.WriteFile(golden, []byte(strings.Join(kept, "\n")+"\n"), 0o644))
		}
		newer := wordsOfNode24(t)
		for i := 0; i < count; i += everyInNode {
			got := outcome(b, i)
			if got != newer[kept[i]] {
				require.Equal(t, kept[i], got, i)
			}
		}
	})
	require.Len(t, kept, count, "go test ./internal/recorded -run %s -update writes %s anew", t.Name(), golden)
	return kept
}

// wordsOfNode24 returns what comes to something else in Node 24, by what it comes to in Node 20: V8 has other words for a few errors.
// Both stand in testdata/node24.golden, in turn.
func wordsOfNode24(t *testing.T) map[string]string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("testdata", "node24.golden"))
	require.NoError(t, err)
	newer := make(map[string]string)
	for pair := range slices.Chunk(strings.Split(strings.TrimSpace(string(text)), "\n"), 2) {
		newer[pair[0]] = pair[1]
	}
	return newer
}

// The same jobs fail alike in both engines: reason, types, message, state, lines. What each comes to with OpenFn's runtime is
// kept in testdata/errors.golden, for a process of Node for each is dear; a part of them is executed there each time.
func TestErrorsAreTheSameInBothEngines(t *testing.T) {
	jobs := errorJobs(t)
	kept := ofNode(t, "errors.golden", len(jobs), func(b *runtest.Bench, i int) string { return outcomeOf(b, jobs[i].body) })
	t.Run("js", func(t *testing.T) {
		b := runtest.New(t, js.New(js.Config{}))
		refused := 0
		for i, job := range jobs {
			if testing.Short() && i%everyInNode != 0 {
				continue
			}
			got := outcomeOf(b, job.body)
			if strings.Contains(got, "this run needs the OpenFn engine") {
				refused++
				continue
			}
			switch job.mark {
			case '#':
				require.Equal(t, kept[i], got, "%s: %s", job.name, job.body)
			case '~':
				require.Equal(t, beginning.FindString(kept[i]), beginning.FindString(got), "%s: %s", job.name, job.body)
				require.NotEqual(t, kept[i], got, "it is the same by now: %s", job.name)
			case '!':
				require.NotEqual(t, kept[i], got, "it is the same by now: %s", job.name)
			default:
				t.Errorf("what is %q before %s?", job.mark, job.name)
			}
		}
		t.Logf("%d of %d jobs are refused", refused, len(jobs))
		require.Less(t, refused, len(jobs)/10)
	})
}

// The page names the jobs whose errors are others here, or have other words.
func TestThePageOfErrors(t *testing.T) {
	kinds := make(map[byte][]string)
	jobs := errorJobs(t)
	for _, job := range jobs {
		kinds[job.mark] = append(kinds[job.mark], job.name)
	}
	runtest.Page(t, page, t.Name(), fmt.Sprintf("| of %d jobs | |\n|---|---|\n| the same | %d |\n| the same but for the words of the message | %s |\n| different | %s |\n",
		len(jobs), len(kinds['#']), strings.Join(kinds['~'], "; "), strings.Join(kinds['!'], "; ")))
}

// Each difference on the page that no test prints names the tests that hold it, and these are there.
func TestEachDifferenceOnThePageHasATest(t *testing.T) {
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, section, found := strings.Cut(string(text), "\n## What else differs\n")
	require.True(t, found)
	section, _, _ = strings.Cut(section, "\n## ")
	known := make(map[string]bool)
	require.NoError(t, filepath.WalkDir("../..", func(path string, _ os.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		code, err := os.ReadFile(path)
		for _, test := range testName.FindAllSubmatch(code, -1) {
			known[string(test[1])] = true
		}
		return err
	}))
	rows := 0
	for line := range strings.Lines(section) {
		if cells := strings.Split(line, " | "); strings.HasPrefix(line, "| ") && len(cells) == 3 && cells[0] != "| what" {
			rows++
			tests := namedTest.FindAllStringSubmatch(cells[2], -1)
			require.NotEmpty(t, tests, line)
			for _, test := range tests {
				require.True(t, known[test[1]], "there is no test %s", test[1])
			}
			continue
		}
		require.Regexp(t, `^(\||\n|Each row)`, line, "what no test holds is not for this page")
	}
	require.Greater(t, rows, 10)
}

var (
	testName  = regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	namedTest = regexp.MustCompile("`(Test\\w+)`")
)

type errorJob struct {
	mark       byte
	name, body string
}

var errorJobName = regexp.MustCompile(`(?m)^//([^ ]) (.*)\n`)

// errorJobs are those of testdata/errors.js.
func errorJobs(t *testing.T) []errorJob {
	text, err := os.ReadFile(filepath.Join("testdata", "errors.js"))
	require.NoError(t, err)
	names := errorJobName.FindAllSubmatchIndex(text, -1)
	jobs := make([]errorJob, len(names))
	for i, at := range names {
		end := len(text)
		if i+1 < len(names) {
			end = names[i+1][0]
		}
		jobs[i] = errorJob{mark: text[at[2]], name: string(text[at[4]:at[5]]), body: string(text[at[1]:end])}
	}
	require.NotEmpty(t, jobs)
	return jobs
}

var (
	// beginning is the reason and the type.
	beginning = regexp.MustCompile(`^\w+ \w* `)
	// places are the columns of errors, and what only later versions of V8 tell of a text.
	places = regexp.MustCompile(`"column":\d+,?|,?"src":"([^"\\]|\\.)*"| \(line \d+ column \d+\)`)
)

// outcomeOf is how a job ended, on one line.
func outcomeOf(b *runtest.Bench, body string) string {
	record := b.Job(body, `"project_id":"p"`)
	var out strings.Builder
	fmt.Fprintf(&out, "%s %s %q, lines %q", record.Reason, record.ErrorType, record.ErrorMessage, runtest.Lines(b.T, record, "JOB"))
	for _, e := range record.Events {
		if e.Event != "step:complete" {
			continue
		}
		var step struct {
			Type   string `json:"error_type"`
			Output string `json:"output_dataclip"`
		}
		require.NoError(b.T, json.Unmarshal(e.Payload, &step))
		var state any
		_ = json.Unmarshal([]byte(step.Output), &state) // of a step without a state there is none
		text, err := json.Marshal(state)
		require.NoError(b.T, err)
		fmt.Fprintf(&out, ", step %s %s", step.Type, text)
	}
	return places.ReplaceAllString(out.String(), "")
}
