package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/runner/command/cgroup"
)

func TestAMachineWithoutControlGroupsIsWarnedOfOnce(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	asked := 0
	open := func(overhead int) (*cgroup.Parent, error) {
		asked = overhead
		return nil, errors.New("they are not mounted here")
	}
	for _, o := range []options.Engine{{Name: "openfn"}, {Name: "js", Cgroups: true}} {
		require.Nil(t, openGroups(o, open, log))
		require.Zero(t, asked)
	}
	require.Empty(t, out.String())
	require.Nil(t, openGroups(options.Engine{Name: "auto", Cgroups: true, CgroupOverheadMB: 128}, open, log))
	require.Equal(t, 128, asked)
	require.Equal(t, 1, strings.Count(out.String(), "level=WARN"))
	require.Contains(t, out.String(), `option=--cgroups reason="they are not mounted here"`)
}

// phxworker config says what a start from the same place would come to.
func TestConfigTellsOfControlGroupsThatAreNotThere(t *testing.T) {
	var out strings.Builder
	log := slog.New(slog.NewTextHandler(&out, nil))
	missing := func() error { return errors.New("they are not mounted here") }
	checkGroups(options.Engine{Name: "auto"}, missing, log)
	checkGroups(options.Engine{Name: "js", Cgroups: true}, missing, log)
	checkGroups(options.Engine{Name: "auto", Cgroups: true}, func() error { return nil }, log)
	require.Empty(t, out.String())
	checkGroups(options.Engine{Name: "auto", Cgroups: true}, missing, log)
	require.Contains(t, out.String(), `option=--cgroups reason="they are not mounted here"`)

	_, _, stderr := execute(t.Context(), nil, "config", "-l", "mock", "--engine", "true", "--engine-validation-retries", "0", "--cgroups")
	require.Equal(t, cgroup.Check() != nil, strings.Contains(stderr, "has its runs watched"), stderr)
}

// A deployment that sets all that ws-worker 1.29 has starts, and is told of what has no effect.
func TestADeploymentOfWsWorkerStarts(t *testing.T) {
	env := map[string]string{
		"WORKER_MAX_STATE_MEMORY_MB": "20", "WORKER_NO_STRINGIFY_STATE": "true", "CGROUP_MEMORY_OVERHEAD_MB": "256", "WORKER_ENABLE_CGROUP_ENFORCEMENT": "1",
		"WORKER_MAX_PAYLOAD_MB": "0", "WORKER_MAX_LOG_PAYLOAD_MB": "0", "WORKER_MAX_RUN_MEMORY_MB": "0", "WORKER_MAX_RUN_DURATION_SECONDS": "0",
	}
	code, stdout, stderr := execute(t.Context(), env, "config", "-l", "mock", "--mock", "--cgroups", "--no-stringify-state", "--state-memory", "30", "--debug")
	require.Equal(t, exitOK, code, stderr)
	require.Regexp(t, `(?m)^no-stringify-state: true +# from --no-stringify-state$`, stdout)
	require.Regexp(t, `(?m)^state-memory: 30 +# from --state-memory$`, stdout)
	require.NotContains(t, stderr, "not known")
	require.Contains(t, stderr, "option=--debug")
}
