package recorded

import (
	"flag"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

var (
	all  = flag.Bool("all", false, "execute each recorded run in Node, and not every third one")
	seed = flag.Int64("seed", time.Now().Unix(), "which third is executed in Node")
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestRecordedRuns executes each recorded run with each engine that it applies
// to, compares all but the engines' own log lines, and prints how it went. Of those that need a process of
// Node each, it takes every third one, from a seed: together they take more than CI has.
func TestRecordedRuns(t *testing.T) {
	files, err := filepath.Glob("testdata/runs/*.json")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, e := range engines {
		t.Run(e.name, func(t *testing.T) {
			made := e.make(t)
			w := runtest.New(t, made)
			web := newWebServer(t)
			same, refused, executed, hung, met := 0, 0, 0, 0, make(map[string]bool)
			every := *all || e.name != "openfn"
			if !every {
				t.Logf("with -seed %d", *seed)
			}
			for i, file := range files {
				recorded := readRecorded(t, file, web)
				if !e.applies(recorded) || !every && (int64(i)+*seed)%3 != 0 {
					continue
				}
				if why := e.refuses(t, made, recorded); why != nil {
					refused++
					t.Logf("%-40s refused: %v", recorded.Name, why)
					continue
				}
				executed++
				met[recorded.Name] = true
				reason, documented := differences[e.name][recorded.Name]
				difference := differenceTo(w, recorded)
				if reason == loggedFunction {
					hung++
				}
				verdict := "same"
				switch {
				case difference == "" && !documented:
					same++
				case difference == "" && reason == loggedFunction:
					verdict = "killed as in the recording, by its time limit: the machine is busy"
				case difference == "":
					verdict = "SAME, but documented to differ"
					t.Errorf("%s no longer differs; take it from the list: %s", recorded.Name, reason)
				case documented:
					verdict = "differs as documented: " + reason
				default:
					verdict = "DIFFERS"
					t.Errorf("%s differs:\n%s", recorded.Name, difference)
				}
				t.Logf("%-40s %s", recorded.Name, verdict)
			}
			for name := range differences[e.name] {
				require.True(t, met[name] || testing.Short() || !every, "%s is documented to differ, but there is no such recording", name)
			}
			t.Logf("%s: %d of %d recorded runs come to the same, %d are refused", e.name, same, executed, refused)
			// Where the original hangs there is nothing to come to the same as. The share is that of all runs.
			if every {
				require.GreaterOrEqual(t, float64(same), e.minimum*float64(executed-hung))
			}
		})
	}
}

// differenceTo executes what was recorded, and returns the first difference, ""
// if there is none.
func differenceTo(w *runtest.Bench, recorded recordedRun) string {
	got := replay(w, recorded)
	want := recorded.Expect
	normalise(&want)
	normalise(&got)
	forgetLatest(&want, &got)
	if want.Reason == "kill" {
		dropLost(&want, &got)
	}
	return compare(want, got)
}

const page = "../../docs/compatibility.md"

// docs/compatibility.md has a row for each difference, and no other.
func TestTheDocumentedDifferences(t *testing.T) {
	reasons := make(map[string]map[string]bool) // by run and reason, of which engines
	for _, e := range engines {
		for run, reason := range differences[e.name] {
			key := fmt.Sprintf("| `%s` | %s |", run, reason)
			if reasons[key] == nil {
				reasons[key] = make(map[string]bool)
			}
			reasons[key][e.name] = true
		}
	}
	var rows strings.Builder
	for _, key := range slices.Sorted(maps.Keys(reasons)) {
		fmt.Fprintf(&rows, "%s %s |\n", key, strings.Join(slices.Sorted(maps.Keys(reasons[key])), ", "))
	}
	runtest.Page(t, page, t.Name(), "| run | here | engine |\n|---|---|---|\n"+rows.String())
}

// How many recorded runs come to the same is on the page as well.
func TestTheSumsOfRecordedRuns(t *testing.T) {
	if testing.Short() {
		t.Skip("asks for adaptors of npm's registry")
	}
	files, err := filepath.Glob("testdata/runs/*.json")
	require.NoError(t, err)
	var rows strings.Builder
	for _, e := range engines {
		applies, refused := countRuns(t, e.name)
		fmt.Fprintf(&rows, "| %s | %d | %d | %d |\n", e.name, applies-refused, applies-refused-len(differences[e.name]), refused)
	}
	chosen, embedded := make(map[string]int), newEmbedded(t)
	differ := 0
	for _, file := range files {
		recorded := readRecorded(t, file, &webServer{})
		engine := "openfn"
		if plan, err := runner.ParsePlan(recorded.Plan); err != nil || embedded.CanRun(t.Context(), &runner.Run{Plan: plan}) == nil {
			engine = "js"
		}
		chosen[engine]++
		if differences[engine][recorded.Name] != "" {
			differ++
		}
	}
	fmt.Fprintf(&rows, "| auto: %d by js, %d by openfn | %d | %d | 0 |\n", chosen["js"], chosen["openfn"], len(files), len(files)-differ)
	runtest.Page(t, page, t.Name(), "| engine | executed | the same | refused before `run:start` |\n|---|---|---|---|\n"+rows.String())
}

// countRuns returns how many recorded runs an engine is tried with, and how many of them it refuses.
func countRuns(t *testing.T, name string) (applies, refused int) {
	t.Helper()
	files, err := filepath.Glob("testdata/runs/*.json")
	require.NoError(t, err)
	engine := engineNamed(t, name)
	var made runner.Engine
	if name == "js" {
		made = newEmbedded(t)
	}
	for _, file := range files {
		recorded := readRecorded(t, file, &webServer{})
		if !engine.applies(recorded) {
			continue
		}
		applies++
		if engine.refuses(t, made, recorded) != nil {
			refused++
		}
	}
	return applies, refused
}
