package js

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/compile"
)

// Variables that change the proof: the seed of what is made up, and "all" for all versions.
const (
	seedVariable     = "PHXWORKER_TEST_SEED"
	versionsVariable = "PHXWORKER_TEST_COMMON"
)

//go:embed testdata/proof.js
var proofCode string

// proof is what proof.js came to with one implementation of the operations.
type proof struct {
	Lines   []string // a use each
	Paths   []string // those that were made up, after the name of the operation
	Said    []string // the console's lines, as lists in JSON
	Exports []string // of the real package
}

// Guards against operations that come to something else than those of the real package: uses of each are made up, and
// executed in Node with the package, and in QuickJS with what is built in.
func TestOperationsAreTheRealOnes(t *testing.T) {
	if testing.Short() {
		t.Skip("takes seconds, all of it in Node and QuickJS; nothing of it is concurrent")
	}
	runtest.Need(t, "node")
	seed := rand.Uint32()
	if set := os.Getenv(seedVariable); set != "" {
		number, err := strconv.ParseUint(set, 10, 32)
		require.NoError(t, err)
		seed = uint32(number)
	}
	versions := []string{commonVersion}
	if os.Getenv(versionsVariable) == "all" {
		versions = commonVersions
	}
	const uses = 8000 // a fourth of them twice
	t.Logf("%s=%d", seedVariable, seed)
	for _, version := range versions {
		t.Run(version, func(t *testing.T) {
			names := slices.Sorted(maps.Keys(builtIn))
			if version != commonVersion {
				names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(ofTheLast, name) })
			}
			ours, published := builtInProof(t, names, seed, uses), nodeProof(t, version, names, seed, uses)
			require.Len(t, published.Lines, uses)
			for i := range published.Lines {
				require.Equal(t, published.Lines[i], ours.Lines[i], "use %d of %s=%d", i, seedVariable, seed)
			}
			require.Equal(t, published.Said, ours.Said)
			require.Equal(t, published.Paths, ours.Paths)
			if version == commonVersion {
				slices.Sort(published.Exports)
				require.Equal(t, published.Exports, exported)
			}
			for _, use := range ours.Paths {
				name, path, _ := strings.Cut(use, " ")
				require.Empty(t, beyond(compile.Use{Name: name, How: compile.CalledWithText, Text: path}, commonAdaptor, version))
			}
		})
	}
}

func nodeProof(t *testing.T, version string, names []string, seed uint32, uses int) proof {
	t.Helper()
	home := runtest.Packages(t, runtest.Adaptors(t), commonAdaptor+"@"+version)[0]
	cmd := exec.CommandContext(t.Context(), "node", "testdata/proof.mjs", "testdata/proof.js", home,
		strings.Join(names, ","), strconv.FormatUint(uint64(seed), 10), strconv.Itoa(uses))
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	require.NoError(t, err, stderr.String())
	var p proof
	require.NoError(t, json.Unmarshal(out, &p))
	return p
}

// builtInProof executes proof.js as a job.
func builtInProof(t *testing.T, names []string, seed uint32, uses int) proof {
	t.Helper()
	prelude, err := compilePrelude()
	require.NoError(t, err)
	require.ElementsMatch(t, prelude.exports, slices.Collect(maps.Keys(builtIn)))
	used, _ := json.Marshal(names)
	code := fmt.Sprintf("import { %[1]s } from %[2]q;\nexport default [async () => ({ json: JSON.stringify(await %[3]s({ %[1]s }, %[4]s, %[5]d, %[6]d)) })];",
		strings.Join(prelude.exports, ", "), commonAdaptor, strings.TrimSpace(proofCode), used, seed, uses)
	var p proof
	s := &step{
		execution: &execution{prelude: prelude, run: &runner.Run{Plan: &runner.Plan{}}, meta: json.RawMessage("{}")},
		node:      &node{job: &runner.Job{Body: code}, module: &compile.Module{Code: code, Imports: []compile.Import{{Module: commonAdaptor}}}},
	}
	var final, ended string
	s.box, err = newSandbox(prelude)
	require.NoError(t, err)
	defer s.box.close()
	s.box.open(0, func(operation string, args []any) (any, error) {
		switch operation {
		case "log":
			said := make([]string, len(args)-2)
			for i := range said {
				said[i] = stringAt(args, i+2)
			}
			p.Said = append(p.Said, "["+strings.Join(said, ",")+"]")
		case "settled":
			s.settled, ended = true, stringAt(args, 0)
		case "state":
			final = stringAt(args, 0)
		}
		return nil, nil
	})
	s.box.vm.Modules = s.loadModule
	_, err = s.box.call("receive", "null", "null", "null")
	require.NoError(t, err)
	_, err = s.box.call("begin", s.jobFacts())
	for !s.settled {
		require.NoError(t, err)
		_, err = s.box.vm.Drain(mostPending)
	}
	require.Empty(t, ended)
	_, err = s.box.call("finish", "", "a", "[]")
	require.NoError(t, err)
	var state struct{ JSON string }
	require.NoError(t, json.Unmarshal([]byte(final), &state))
	require.NoError(t, json.Unmarshal([]byte(state.JSON), &p))
	return p
}
