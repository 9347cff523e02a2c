package main

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/cmd/phxworker/options"
)

func knownTable(t *testing.T) table {
	t.Helper()
	page, err := os.ReadFile(filepath.Join("..", "..", page))
	require.NoError(t, err)
	known, err := readTable(page)
	require.NoError(t, err)
	return known
}

// publishedNames are those that the versions of the table were found to have, by "go run ./internal/upstream".
func publishedNames(t *testing.T) (names []string) {
	t.Helper()
	list, err := os.ReadFile("testdata/names.txt")
	require.NoError(t, err)
	for scan := bufio.NewScanner(bytes.NewReader(list)); scan.Scan(); {
		names = append(names, scan.Text())
	}
	return names
}

// Guards against a field that nobody notices to be gone from the table: each one that is taken out is reported.
func TestTheTableKnowsWhatIsPublished(t *testing.T) {
	known, names := knownTable(t), publishedNames(t)
	require.Greater(t, len(names), 100)
	require.Empty(t, known.lacks(names))
	for i, row := range known.rows {
		require.NotEmpty(t, row.since)
		require.Contains(t, row.test, "`Test", row.names)
		for _, name := range row.names {
			less := table{rows: slices.Clone(known.rows)}
			less.rows[i].names = slices.DeleteFunc(slices.Clone(row.names), func(other string) bool { return other == name })
			if slices.Contains(names, name) {
				require.Equal(t, []string{name}, less.lacks(names), "or it is there twice")
			}
		}
		if strings.HasPrefix(row.where, "– ") {
			continue
		}
		where := code.FindAllStringSubmatch(row.where, -1)
		require.NotEmpty(t, where, row.names)
		for _, m := range where {
			_, err := os.Stat(filepath.Join("..", "..", m[1]))
			require.NoError(t, err, row.names)
		}
	}
	require.Len(t, known.versions, len(packages))
	for _, p := range packages {
		require.NotEmpty(t, known.versions[p.name])
	}
}

// The table has each option of ws-worker that ours takes, and ours takes each that it has.
func TestTheTableHasTheOptions(t *testing.T) {
	var ours, listed []string
	for _, o := range options.Table() {
		if !o.Ours {
			ours = append(ours, o.Name())
		}
	}
	for _, row := range knownTable(t).rows {
		for _, name := range row.names {
			if strings.HasPrefix(name, "--") || !strings.ContainsAny(name, ". :") {
				listed = append(listed, name)
			}
		}
	}
	require.ElementsMatch(t, ours, listed)
}

func TestNamesInTypes(t *testing.T) {
	const source = `
/** Not a field: no */
export type LightningPlan = {
  id: string; // id
  meta?: {
    inner: string;
  };
};
export type CLAIM = 'claim';
export type STEP_PAUSE = 'step:pause';
export type ABORT = 'abort';
export interface LightningEdge {
  'quoted': string;
  target_job_id: string;
}
export type ClaimRun = { id: string; token?: string };
export type LightningColour = { red: number };
export type Unrelated = { x: number };
export type StepCompletePayload = ExitReason & {
  mem: {
    job: number;
  };
  new_field?: string;
};
`
	require.Equal(t, []string{
		"claim.runs.id", "claim.runs.token", "edge.quoted", "edge.target_job_id", "event abort", "event claim", "event step:pause", "plan.id", "plan.meta",
		"step:complete.mem", "step:complete.new_field", "type LightningColour",
	}, contractNames([]byte(source)))
	require.Equal(t, []string{"runtime.a", "runtime.b"}, optionNames("runtime", []byte("type Options = {\n  b?: X;\n  /** c: d */\n  a: Y;\n};\ntype RawOptions = {\n  z: 1;\n};\n")))
	const program = `var E = class { name = "OddError"; }
const x = options.limitMb ?? opts.other; if (process.env.SOME_VARIABLE) {}
    name = "OddError";
`
	require.Equal(t, []string{"engine.limitMb", "engine.other", "error OddError", "variable SOME_VARIABLE"}, codeNames("engine", []byte(program)))
}
