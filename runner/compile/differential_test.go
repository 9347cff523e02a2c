package compile_test

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner/compile"
)

// compilerVariable names a folder in whose node_modules OpenFn's compiler lies. With it, new jobs are generated and compiled
// by both; without it, those that were compiled once and kept.
const compilerVariable = "PHXWORKER_TEST_COMPILER"

var (
	seed  = flag.Uint64("seed", 1, "of the jobs that OpenFn's compiler is compared over")
	count = flag.Int("jobs", 2000, "how many jobs OpenFn's compiler is compared over")
)

// compiled is what a compiler made of a body.
type compiled struct {
	Body  string `json:"body"`
	Code  string `json:"code"`
	Error string `json:"error"`
}

// What OpenFn's compiler and ours make of the same jobs does the same. Both are executed in Node, with operations that
// record what they are given.
func TestJobsDoWhatOpenFnsCompilerMakesThemDo(t *testing.T) {
	if testing.Short() {
		t.Skip("nearly all of its time goes into Node")
	}
	runtest.Need(t, "node")
	jobs := compiledByOpenFn(t)
	pairs := make([]compiled, 0, 2*len(jobs))
	for _, theirs := range jobs {
		pairs = append(pairs, ours(theirs.Body), theirs)
	}
	did := outcomes(t, pairs)
	shapes, failed := 0, 0
	for i := 0; i < len(pairs); i += 2 {
		if shape, known := brokenShapes[pairs[i].Body]; known {
			shapes++
			if means := shape.means; means != "" {
				at := slices.IndexFunc(pairs, func(c compiled) bool { return c.Body == means }) + 1
				require.Equal(t, did[at], did[i], "%s: %s", shape.why, pairs[i].Body)
			} else {
				require.Contains(t, did[i], shape.refused, pairs[i].Body)
			}
			require.NotEqual(t, did[i], did[i+1], "OpenFn's compiler does this well by now: %s", pairs[i].Body)
			continue
		}
		if did[i] == did[i+1] {
			continue
		}
		if failed++; failed <= 10 {
			t.Errorf("%s\n--- ours:\n%s\n%s\n--- theirs:\n%s\n%s", pairs[i].Body, pairs[i].Code, did[i], pairs[i+1].Code, did[i+1])
		}
	}
	require.Equal(t, len(brokenShapes), shapes, "jobs are missing in what is kept: -update with %s", compilerVariable)
	t.Logf("%d jobs, %d of which do something else", len(jobs), failed)
}

// A shape is one of which OpenFn's compiler makes what its writer cannot have meant. What ours makes of it does what
// another body does, with which theirs has no trouble; or it is refused.
type shape struct{ why, means, refused string }

var brokenShapes = map[string]shape{
	"fn($.a.m($.x))":                  {why: deepMethod, means: "fn(state => state.a.m(state.x))"},
	"get($.list.map(x => x + $.x))":   {why: deepMethod, means: "get(state => state.list.map(x => x + state.x))"},
	"fn($.m($.x).concat($.y))":        {why: deepMethod, means: "fn(state => state.m(state.x).concat(state.y))"},
	"fn($?.m?.($.x))":                 {why: deepMethod, means: "fn(state => state?.m?.(state.x))"},
	"fn(!$.f($.x))":                   {why: methodInside, means: "fn(state => !state.f(state.x))"},
	"fn(`${$.f($.x)}`)":               {why: methodInside, means: "fn(state => `${state.f(state.x)}`)"},
	"fn([$.m($.x)])":                  {why: methodInside, means: "fn(state => [state.m(state.x)])"},
	"fn({ a: helper2(1), b: $.m() })": {why: methodInside, means: "fn(state => ({ a: helper2(1), b: state.m() }))"},
	"fn(new Date($.f($.zero)))":       {why: methodInside, means: "fn(state => new Date(state.f(state.zero)))"},
	"fn($.m($.f($.x)))":               {why: methodInside, means: "fn(state => state.m(state.f(state.x)))"},
	"fn(state => $.m($.x))":           {why: methodInside, means: "fn(state => state.m(state.x))"},
	"const y = $.m($.x); fn(y)":       {why: methodOutside, refused: "Must be inside an operation"},
	"$.m($.x)":                        {why: methodOutside, refused: "Must be inside an operation"},
	"const $ = { x: 'own' }; fn($.x)": {why: "a `$` that the job itself declares at the top is the state's all the same", means: "const own = { x: 'own' }; fn(own.x)"},
	"get(1).catch()":                  {why: "a catch without a function refers to a p that is not there", means: "get(1).then()"},
	"get(later(1).then(s => s)).then()": {
		why:   "a chain in the arguments of an operation that has one itself is called at once",
		means: "const inner = later(1).then(s => s); get(inner).then()",
	},
	"const c = { a: helper2(1) }; fn(c.a)": {why: "what only an object at the top names is not imported", means: "const a = helper2(1); fn(a)"},
	"fn({ each })":                         {why: "what only a key names is not imported", means: "const e = each; fn({ each: e })"},
	"fn(1); export default [get(2)]":       {why: "operations come after the elements of an array that the job exports itself", means: "fn(1); get(2)"},
	"fn(...[$.x])":                         {why: "the message is recast's", refused: "cannot be spread over arguments"},
}

const (
	deepMethod    = "a method of what lies in the state is made a function before it is called"
	methodInside  = "a call of a method of the state is made a function where its value is needed"
	methodOutside = "a call of a method of the state outside an operation is made a function, which nobody calls"
)

// ours compiles a body with our compiler.
func ours(body string) compiled {
	module, err := compile.Compile(compile.Job{Name: "a", Body: body, Adaptors: []compile.Adaptor{{Name: "@openfn/language-test", Exports: stubNames}}})
	if err != nil {
		return compiled{Body: body, Error: strings.TrimPrefix(err.Error(), "a: ")}
	}
	return compiled{Body: body, Code: module.Code}
}

var stubNames = []string{"fn", "get", "post", "each", "other", "later", "fails", "util", "helper2", "execute"}

// compiledByOpenFn returns the jobs and what OpenFn's compiler made of them.
func compiledByOpenFn(t *testing.T) []compiled {
	kept := filepath.Join("testdata", "effects", "openfn.ndjson.gz")
	folder := os.Getenv(compilerVariable)
	if folder == "" {
		file, err := os.Open(kept)
		require.NoError(t, err)
		defer file.Close()
		unzipped, err := gzip.NewReader(file)
		require.NoError(t, err)
		var jobs []compiled
		for lines := json.NewDecoder(unzipped); lines.More(); {
			var job compiled
			require.NoError(t, lines.Decode(&job))
			jobs = append(jobs, job)
		}
		return jobs
	}
	t.Logf("%d jobs of -seed %d", *count, *seed)
	g := newGenerator(*seed)
	jobs := make([]compiled, *count, *count+2*len(brokenShapes))
	for i := range jobs {
		jobs[i].Body = g.job()
	}
	for _, body := range slices.Sorted(maps.Keys(brokenShapes)) {
		jobs = append(jobs, compiled{Body: body}, compiled{Body: brokenShapes[body].means})
	}
	names, err := json.Marshal(stubNames)
	require.NoError(t, err)
	out := node(t, jobs, func(file string) []string {
		return []string{filepath.Join("testdata", "effects", "openfn.mjs"), folder, file, string(names)}
	})
	require.Len(t, out, len(jobs))
	for i := range jobs {
		require.NoError(t, json.Unmarshal(out[i], &jobs[i]))
	}
	if *update {
		var zipped bytes.Buffer
		w := gzip.NewWriter(&zipped)
		for _, job := range jobs {
			require.NoError(t, json.NewEncoder(w).Encode(job))
		}
		require.NoError(t, w.Close())
		require.NoError(t, os.WriteFile(kept, zipped.Bytes(), 0o644))
	}
	return jobs
}

// outcomes returns what each job did.
func outcomes(t *testing.T, jobs []compiled) []string {
	lines := node(t, jobs, func(file string) []string {
		return []string{"--experimental-vm-modules", "--no-warnings", filepath.Join("testdata", "effects", "effects.mjs"), file}
	})
	require.Len(t, lines, len(jobs))
	outcomes := make([]string, len(jobs))
	for i := range jobs {
		if outcomes[i] = string(lines[i]); jobs[i].Error != "" {
			outcomes[i] = "does not compile: " + jobs[i].Error
		}
	}
	return outcomes
}

// node gives a file of jobs to a program and returns the lines that it prints.
func node(t *testing.T, jobs []compiled, arguments func(file string) []string) [][]byte {
	file := filepath.Join(t.TempDir(), "jobs.ndjson")
	var text bytes.Buffer
	for _, job := range jobs {
		require.NoError(t, json.NewEncoder(&text).Encode(job))
	}
	require.NoError(t, os.WriteFile(file, text.Bytes(), 0o600))
	command := exec.CommandContext(t.Context(), "node", arguments(file)...)
	command.Stderr = os.Stderr
	out, err := command.Output()
	require.NoError(t, err)
	var lines [][]byte
	for scanner := bufio.NewScanner(bytes.NewReader(out)); scanner.Scan(); {
		lines = append(lines, bytes.Clone(scanner.Bytes()))
	}
	return lines
}
