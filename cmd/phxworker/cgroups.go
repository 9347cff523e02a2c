package main

import (
	"log/slog"

	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/runner/command/cgroup"
)

// openGroups returns where the processes of the engine get control groups, nil where they get none. A
// machine that does not let the worker make any is warned of once: the memory of runs is watched then.
func openGroups(o options.Engine, open func(overheadMB int) (*cgroup.Parent, error), log *slog.Logger) *cgroup.Parent {
	if !o.Cgroups || o.Name == "js" {
		return nil
	}
	groups, err := open(o.CgroupOverheadMB)
	if err != nil {
		log.Warn("the kernel does not keep runs to their memory, which is watched instead", "option", "--cgroups", "reason", err)
		return nil
	}
	log.Info("the kernel keeps the processes of the engine to the memory of their runs", "overhead_mb", o.CgroupOverheadMB)
	return groups
}

// checkGroups warns of a machine that would not let a worker make control groups, without making any.
func checkGroups(o options.Engine, check func() error, log *slog.Logger) {
	if !o.Cgroups || o.Name == "js" {
		return
	}
	if err := check(); err != nil {
		log.Warn("a worker that is started from here has its runs watched, for the kernel would not keep them to their memory", "option", "--cgroups", "reason", err)
	}
}
