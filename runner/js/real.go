package js

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/egress"
	"github.com/phxworker/phxworker/runner/js/chunk"
)

// Packages has adaptors from npm. It may be used concurrently.
type Packages interface {
	// Package returns the package that a plan means by a specifier such as "@openfn/language-http@7.2.10".
	Package(ctx context.Context, specifier string) (*Package, error)
	// Unfit notes that a package called for something of Node's that nothing stands in for, and so is not for this engine.
	Unfit(one *Package, why string)
}

// Package is an adaptor from npm.
type Package struct {
	// Name and Version are those of its package.json; Entry is the id of the chunk of its main module.
	Name, Version, Entry string
	// Exports are what that exports.
	Exports []string
	// Chunks are those of the package and of all that it depends on.
	Chunks *chunk.Store
	// Node is why it is for Node, in words that go on from its name; empty if it may be executed here.
	Node string
}

// reals are the packages of a run by their specifiers.
type reals map[string]*Package

// findReals finds the adaptors of a plan that needs more than what is built in.
func (e *Engine) findReals(ctx context.Context, plan *runner.Plan) (reals, error) {
	found := make(reals)
	for i := range plan.Jobs {
		job := &plan.Jobs[i]
		if !strings.HasPrefix(job.Adaptor, allowedModules) || found[job.Adaptor] != nil {
			continue
		}
		one, err := e.cfg.Packages.Package(ctx, job.Adaptor)
		switch {
		case ctx.Err() != nil:
			return nil, context.Cause(ctx)
		case err != nil:
			return nil, &runner.Failure{Reason: runner.Exception, Type: "AutoinstallError", Message: err.Error()}
		case one.Node != "":
			return nil, &refusal{job, "has the adaptor " + one.Name + "@" + one.Version + ", which " + one.Node, false}
		}
		found[job.Adaptor] = one
	}
	return found, nil
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

func (s *step) chunks(id string) ([]byte, error) {
	return s.reals[s.node.job.Adaptor].Chunks.Bytecode(id)
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
