package compile

import (
	"context"
	"fmt"

	"golang.org/x/sync/semaphore"
)

// A Compiler compiles the code of many runs within a bound on the memory that this takes, for all of them together. It
// may be used concurrently.
//
// The memory is foretold from what the code is made of, see [Compiler.Start], before a tree is built of it. What would
// take more than all of it is refused. Small jobs are compiled at once; larger ones wait until there is room for
// them. Runs with very much code wait for each other besides, until the end of those that came first, since a
// compiled job is kept for as long as its run lasts. No other run waits for that.
type Compiler struct {
	memory int64
	work   *semaphore.Weighted // what compiling takes
	kept   *semaphore.Weighted // what runs with very much code keep
}

const (
	// DefaultMemory is enough for some 400 kB of ordinary code in one job, or 134,000 tokens.
	DefaultMemory = 64 << 20
	// What compiling takes at most for a token and for a byte, garbage included; what is kept of it; and what an
	// engine takes for the tokens of the job that it executes, or of the conditions.
	workToken, workByte = 350, 8
	keptToken, keptByte = 48, 4
	usedToken           = 450
	// smallWork and smallKept wait for nothing.
	smallWork, smallKept = 1 << 20, 12 << 20
)

// NewCompiler returns a Compiler that takes about so many bytes of memory for its work, and as many again for what runs
// with very much code keep. 0 stands for [DefaultMemory].
func NewCompiler(memory int64) *Compiler {
	if memory <= 0 {
		memory = DefaultMemory
	}
	return &Compiler{memory: memory, work: semaphore.NewWeighted(memory), kept: semaphore.NewWeighted(memory)}
}

// A Batch is the code of one run, to be compiled part by part, by one goroutine.
type Batch struct {
	compiler *Compiler
	sizes    map[string]size // of the sources of Start, none of which is counted again
	kept     int64           // what was taken of the compiler's
}

// Start makes room for what a run keeps of its jobs and conditions. An error is an [*Error], or the cause of ctx if that ended while the run waited.
func (c *Compiler) Start(ctx context.Context, jobs []Job, conditions []string) (*Batch, error) {
	b := &Batch{compiler: c, sizes: make(map[string]size, len(jobs)+len(conditions))}
	var total size
	for _, condition := range conditions {
		total = total.plus(b.sizeOf(condition))
	}
	used := total.tokens
	for i := range jobs {
		one := b.sizeOf(jobs[i].Body)
		total, used = total.plus(one), max(used, one.tokens)
	}
	switch kept := total.kept() + int64(used)*usedToken; {
	case kept <= smallKept:
	case kept > c.memory:
		return b.refused(jobs, total, kept)
	default:
		if err := c.kept.Acquire(ctx, kept); err != nil {
			return nil, context.Cause(ctx)
		}
		b.kept = kept
	}
	return b, nil
}

// refused returns why there is no room for a run: one of its jobs, if that is too large by itself.
func (b *Batch) refused(jobs []Job, total size, kept int64) (*Batch, error) {
	for i := range jobs {
		if err := b.bound(jobs[i].Name, b.sizeOf(jobs[i].Body)); err != nil {
			return nil, err
		}
	}
	return nil, &Error{Message: b.compiler.tooLarge("The code of the plan", total, kept)}
}

func (b *Batch) sizeOf(source string) size {
	s, known := b.sizes[source]
	if !known {
		s = sizeOf(source)
		b.sizes[source] = s
	}
	return s
}

// bound returns why a job cannot be compiled if it is too large.
func (b *Batch) bound(name string, s size) error {
	if work := s.work(); work > b.compiler.memory {
		return &Error{Name: name, Message: b.compiler.tooLarge("The code", s, work)}
	}
	return nil
}

// Close frees the room. The modules are not to be used any more.
func (b *Batch) Close() {
	b.compiler.kept.Release(b.kept)
	b.kept = 0
}

// Compile compiles a job; see the function [Compile]. When ctx ends, the error is its cause.
func (b *Batch) Compile(ctx context.Context, job Job) (module *Module, err error) {
	err = b.within(ctx, job, func(s size) error {
		module, err = compile(ctx, job, s)
		return err
	})
	return module, err
}

// Condition compiles a condition; see the function [Condition]. When ctx ends, the error is its cause.
func (b *Batch) Condition(ctx context.Context, expression string) (function string, err error) {
	err = b.within(ctx, Job{Body: expression}, func(s size) error {
		function, err = condition(expression, s)
		return err
	})
	return function, err
}

// within calls do when there is room for a job.
func (b *Batch) within(ctx context.Context, job Job, do func(size) error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	size := b.sizeOf(job.Body)
	if err := b.bound(job.Name, size); err != nil {
		return err
	}
	if work := size.work(); work > smallWork {
		if err := b.compiler.work.Acquire(ctx, work); err != nil {
			return context.Cause(ctx)
		}
		defer b.compiler.work.Release(work)
	}
	return do(size)
}

func (c *Compiler) tooLarge(what string, s size, memory int64) string {
	return fmt.Sprintf("%s is too large: %d bytes in %d words and signs, which take up to %d MB of memory, over this worker's limit of %d MB",
		what, s.bytes, s.tokens, (memory+1<<20-1)>>20, c.memory>>20)
}

// size is what the memory that compiling takes goes by.
type size struct {
	tokens, bytes int
	nested        int // the offset at which a source nests too deeply to be parsed, -1 if it does not
}

// tooNested returns why a source cannot be parsed, nil if it can.
func (s size) tooNested(source string) error {
	if s.nested < 0 {
		return nil
	}
	return errorAt(source, s.nested, "Nested too deeply")
}

func (s size) plus(t size) size {
	return size{tokens: min(s.tokens+t.tokens, manyTokens), bytes: s.bytes + t.bytes}
}

func (s size) work() int64 { return int64(s.tokens)*workToken + int64(s.bytes)*workByte }

func (s size) kept() int64 { return int64(s.tokens)*keptToken + int64(s.bytes)*keptByte }
