package js

import (
	"context"
	"encoding/json"
	"errors"
	"strings"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/egress"
	"github.com/phxworker/phxworker/runner/js/chunk"
)

// Packages has adaptors from npm. It may be used concurrently.
type Packages interface {
	// Package returns the package that a plan means by a specifier such as "@openfn/language-http@7.2.10", or [Builtins]. All of its chunks are in memory, so that nothing can be missing once a run has begun. progress
	// gets lines for the person who waits, on the caller's goroutine. The error is a [*PackageError], or why ctx ended.
	Package(ctx context.Context, specifier string, progress func(line string)) (*Package, error)
	// Unfit notes that a package called for something of Node's that nothing stands in for, and so is not for this engine.
	Unfit(one *Package, why string)
}

// PackageError is why a package cannot be had.
type PackageError struct {
	// Reason is one line for people.
	Reason string
	// Passing tells that the cause is none of the package's, and may be gone later: the network, the registry, a disk that is full.
	Passing bool
}

func (e *PackageError) Error() string { return e.Reason }

// Package is an adaptor from npm.
type Package struct {
	// Name and Version are those of its package.json; Entry is the id of the chunk of its main module.
	Name, Version, Entry string
	// Exports are what that exports.
	Exports []string
	// Chunks are those of the package and of all that it depends on; nil for one that is for Node.
	Chunks *chunk.Store
	// Node is why it is for Node, in words that go on from its name; empty if it may be executed here.
	Node string
}

// reals are the packages of a run by their specifiers.
type reals map[string]*Package

// Builtins is the package of what stands in for Node's builtins, of which a job itself sees Buffer.
const Builtins = "node:"

// findReals finds the adaptors of a plan that needs more than what is built in.
func (e *Engine) findReals(ctx context.Context, run *runner.Run) (reals, error) {
	found := make(reals)
	for i := range run.Plan.Jobs {
		job := &run.Plan.Jobs[i]
		if !strings.HasPrefix(job.Adaptor, allowedModules) {
			continue
		}
		if found[job.Adaptor] == nil {
			one, err := e.findReal(ctx, run, job.Adaptor)
			if err != nil {
				return nil, err
			}
			if one.Node != "" {
				return nil, &refusal{jobsCode(job), "has the adaptor " + one.Name + "@" + one.Version + ", which " + one.Node, false}
			}
			found[job.Adaptor] = one
		}
		if found[Builtins] == nil && usesBuffer(run.Plan, job) {
			one, err := e.findReal(ctx, run, Builtins)
			if err != nil {
				return nil, err
			}
			found[Builtins] = one
		}
	}
	return found, nil
}

// findReal finds one package. What cannot be had for a cause that passes is remembered, for [Engine.Check] to try again.
func (e *Engine) findReal(ctx context.Context, run *runner.Run, specifier string) (*Package, error) {
	one, err := e.cfg.Packages.Package(ctx, specifier, func(line string) { run.Log(runner.TextLine("info", "RTE", line)) })
	switch {
	case err == nil:
		return one, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	}
	failure := &runner.Failure{Reason: runner.Exception, Type: "AutoinstallError", Message: err.Error()}
	if !isPassing(err) {
		return nil, failure
	}
	e.lacks.Store(&specifier)
	return nil, runner.Unable(failure)
}

func isPassing(err error) bool {
	failed, ok := errors.AsType[*PackageError](err)
	return ok && failed.Passing
}

// checkPackages tries again what could not be had last.
func (e *Engine) checkPackages(ctx context.Context) error {
	specifier := e.lacks.Load()
	if specifier == nil {
		return nil
	}
	_, err := e.cfg.Packages.Package(ctx, *specifier, nil)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if isPassing(err) {
		return err
	}
	e.lacks.CompareAndSwap(specifier, nil)
	return nil
}

// real returns the package that the job of the step means by a name, nil for none.
func (s *step) real(name string) *Package {
	if s.node == nil || s.node.job == nil {
		return nil
	}
	if one := s.reals[s.node.job.Adaptor]; one != nil && one.Name == name {
		return one
	}
	return nil
}

// chunks returns the code of a chunk. What was not prepared, since the adaptor made up its name, is missing as all that nothing
// stands in for is: that ends the run.
func (s *step) chunks(id string) ([]byte, error) {
	code, err := s.reals[s.node.job.Adaptor].Chunks.Bytecode(id)
	if err != nil && chunk.IsStandIn(id) {
		s.lacks(id)
	}
	return code, err
}

// code is the text of the module of a package, for a job with this code.
func (p *Package) code(job string) string {
	code := moduleCode(p.Name, usedOf(p.Name, p.Exports, job))
	if strings.Contains(job, "default") || strings.Contains(job, p.Name) {
		code += " export default globalThis." + handoverName + "[" + quoted(p.Name) + "].default;"
	}
	return code
}

// lacks ends the run: a package called for what nothing stands in for. What it would come to otherwise is not known.
func (s *step) lacks(what string) {
	one := s.reals[s.node.job.Adaptor]
	if one == nil || s.crash != nil {
		return
	}
	s.engine.cfg.Packages.Unfit(one, "calls "+what+" of Node, which the embedded engine does not have")
	s.crash = &runner.Failure{
		Reason: runner.Exception, Type: "EngineError",
		Message: one.Name + "@" + one.Version + " called " + what + " of Node, which the embedded engine does not have; this run needs the OpenFn engine: install Node, and use --engine auto or openfn",
	}
	s.box.vm.Interrupt()
}

// answer is what came of an exchange.
type answer struct {
	id   int
	text string
}

// exchange begins an exchange, whose answer settle hands over.
func (s *step) exchange(id int, text string) error {
	var x chunk.Exchange
	if err := json.Unmarshal([]byte(text), &x); err != nil {
		return err
	}
	if s.answers == nil {
		s.answers = make(chan answer)
		s.client = &chunk.Client{Traffic: s.openTraffic()}
		s.network, s.endNetwork = context.WithCancel(context.Background())
	}
	call, err := s.traffic.Admit(int64(len(text)) + x.Holds())
	if err != nil { // without a goroutine, for a flood has many of these
		came, _ := json.Marshal(chunk.Failed(err)) // cannot fail
		s.refused = append(s.refused, answer{id, string(came)})
		return nil
	}
	x.Call = call
	s.under.Go(func() {
		defer call.Free()                                  // when the job has the answer
		came, _ := json.Marshal(s.client.Do(s.network, x)) // cannot fail
		select {
		case s.answers <- answer{id, string(came)}:
		case <-s.network.Done():
		}
	})
	return nil
}

// openTraffic opens that of the run, if no step before has.
func (x *execution) openTraffic() *egress.Traffic {
	if x.traffic == nil {
		x.traffic = x.engine.cfg.Egress.Open(func(line string) { x.log("warn", line) })
	}
	return x.traffic
}

// takeRefused returns the answer to an exchange that was not begun, nil for none.
func (s *step) takeRefused() *answer {
	if len(s.refused) == 0 {
		return nil
	}
	first := s.refused[0]
	s.refused = s.refused[1:]
	return &first
}

// endExchanges ends what is under way, and waits for it.
func (s *step) endExchanges() {
	if s.answers == nil {
		return
	}
	s.endNetwork()
	s.under.Wait()
	s.client.Close()
}
