package openfn

import (
	"context"
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

// allowed is what the name of a module begins with that a job may import.
const allowed = "@openfn/"

// packagesByJob are the adaptors of a plan, by the id of the job. One that is not
// allowed has a name only: its import fails when the job runs.
type packagesByJob map[string][]adaptors.Package

// packages resolves the adaptors of a plan, and installs those that are not
// there, all at once.
func (e *Engine) packages(ctx context.Context, plan *runner.Plan, progress func(string)) (packagesByJob, error) {
	resolved := make(map[string]*resolution)
	var all sync.WaitGroup
	for i := range plan.Jobs {
		for _, specifier := range e.adaptorsOf(&plan.Jobs[i]) {
			if resolved[specifier] != nil {
				continue
			}
			r := &resolution{}
			resolved[specifier] = r
			if !strings.HasPrefix(specifier, allowed) {
				r.pkg.Name, _ = runner.SplitAdaptor(specifier)
				continue
			}
			all.Go(func() { r.pkg, r.err = e.repo.Resolve(ctx, specifier, progress) })
		}
	}
	all.Wait()
	byJob := make(packagesByJob)
	for i := range plan.Jobs {
		job := &plan.Jobs[i]
		for _, specifier := range e.adaptorsOf(job) {
			r := resolved[specifier]
			if r.err != nil {
				return nil, r.err
			}
			byJob[job.ID] = append(byJob[job.ID], r.pkg)
		}
	}
	return byJob, nil
}

// resolution is what became of a specifier.
type resolution struct {
	pkg adaptors.Package
	err error
}

// failure makes what keeps a run from being executed how it ends.
func (e *Engine) failure(err error) error {
	if node, ok := errors.AsType[*nodeError](err); ok {
		if e.cfg.Optional {
			return engineError(node)
		}
		return runner.Unable(engineError(node))
	}
	install, ok := errors.AsType[*adaptors.InstallError](err)
	if !ok {
		return err
	}
	failure := &runner.Failure{Reason: runner.Exception, Type: "AutoinstallError", Message: install.Error()}
	if install.Unable && e.health.failed(install.Specifier, install.Closed) {
		return runner.Unable(failure)
	}
	return failure
}

// all returns the packages that are installed, each once.
func (p packagesByJob) all() []adaptors.Package {
	var all []adaptors.Package
	for _, packages := range p {
		for _, one := range packages {
			known := slices.ContainsFunc(all, func(other adaptors.Package) bool { return other.Dir == one.Dir })
			if one.Dir != "" && !known {
				all = append(all, one)
			}
		}
	}
	slices.SortFunc(all, func(a, b adaptors.Package) int { return strings.Compare(a.Dir, b.Dir) })
	return all
}

// entries are the paths of their modules.
func (p packagesByJob) entries() []string {
	var entries []string
	for _, one := range p.all() {
		entries = append(entries, one.Entry)
	}
	return entries
}

// addTo names each adaptor with its versions.
func (p packagesByJob) addTo(versions runner.Versions) {
	for _, one := range p.all() {
		known, _ := versions[one.Name].([]string)
		if !slices.Contains(known, one.Version) {
			versions[one.Name] = append(known, one.Version)
		}
	}
}
