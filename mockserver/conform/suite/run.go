package suite

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// Options say which cases are tried and how.
type Options struct {
	// Cases are patterns for [Select]. Defaults to all.
	Cases []string
	// Spec is the version of Lightning. Defaults to the newest. A case of another one is not selected.
	Spec Spec
	// Slow tries the slow cases as well.
	Slow bool
	// Parallel is how many cases are tried side by side. Defaults to 4.
	Parallel int
	// Patience multiplies the limits of the cases, for a machine or a subject that is slow. What a case
	// asks to come within a certain time is asked all the same. Defaults to 1.
	Patience int
	// Expected are the ids of cases that are known to fail. Nil is no baseline at all; one that is
	// empty makes every failure red, whatever its level.
	Expected []string
	// Subject says what is tried, for the report.
	Subject string
	// Progress takes each result as it comes, in any order, from one goroutine at a time. It must not
	// wait for the others. It may be nil.
	Progress func(Result)
}

const defaultParallel = 4

// Run tries the cases and returns when all have ended. When ctx ends first, those that are under way
// are ended too, and say so. The error is one of the options.
func Run(ctx context.Context, cases []Case, o Options) (*Report, error) {
	if o.Spec == "" {
		o.Spec = Spec219
	}
	selected, err := Select(cases, o.Cases)
	if err != nil {
		return nil, err
	}
	for _, id := range o.Expected {
		if !slices.ContainsFunc(cases, func(c Case) bool { return c.ID == id }) {
			return nil, fmt.Errorf("the expected failures name %q, which is no case: --list shows all", id)
		}
	}
	report := &Report{Subject: o.Subject, Spec: o.Spec, Began: time.Now(), Baseline: o.Expected != nil}
	selected, report.OtherSpec = ofSpec(selected, o)
	report.Results = tryAll(ctx, selected, o)
	report.Took = time.Since(report.Began)
	return report, nil
}

// ofSpec returns the cases that are for the version that is asked for, and the ids of the others that a
// pattern names one by one: nobody has asked for the rest of them.
func ofSpec(cases []Case, o Options) (ours []Case, others []string) {
	for _, c := range cases {
		switch {
		case len(c.Specs) == 0 || slices.Contains(c.Specs, o.Spec):
			ours = append(ours, c)
		case slices.Contains(o.Cases, c.ID):
			others = append(others, c.ID)
		}
	}
	return ours, others
}

// tryAll returns the results in the order of the cases. Long cases begin first, so that none is waited
// for alone at the end.
func tryAll(ctx context.Context, cases []Case, o Options) []Result {
	order := make([]int, len(cases))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(cases[b].Limit, cases[a].Limit) })

	results := make([]Result, len(cases))
	next := make(chan int)
	var progress sync.Mutex // one result at a time
	var workers sync.WaitGroup
	for range max(1, min(orDefault(o.Parallel, defaultParallel), len(cases))) {
		workers.Go(func() {
			for i := range next {
				r := try(ctx, cases[i], o)
				results[i] = r
				if o.Progress != nil {
					progress.Lock()
					o.Progress(r)
					progress.Unlock()
				}
			}
		})
	}
	for _, i := range order {
		next <- i
	}
	close(next)
	workers.Wait()
	return results
}

func orDefault[N ~int | ~int64](n, otherwise N) N {
	if n <= 0 {
		return otherwise
	}
	return n
}

// ErrInterrupted ends the context of [Run] when somebody wants it to end.
var ErrInterrupted = errors.New("interrupted")

// try executes one case, unless there is a reason not to.
func try(ctx context.Context, c Case, o Options) Result {
	var r Result
	switch {
	case ctx.Err() != nil:
		r = notTried(c, fmt.Sprintf("%v before it began", context.Cause(ctx)))
	case c.Slow && !o.Slow:
		r = notTried(c, "it is slow, and --slow was not asked for")
	default:
		c.Limit = orDefault(c.Limit, defaultLimit) * time.Duration(orDefault(o.Patience, 1))
		r = c.execute(ctx, o.Spec)
		if ctx.Err() != nil { // it may have failed for that alone, or passed: an interrupt ends what is under test
			r.Verdict, r.Reason, r.Failures = NotTried, fmt.Sprintf("%v while it was under way", context.Cause(ctx)), nil
		}
	}
	r.Expected = slices.Contains(o.Expected, c.ID)
	return r
}

func notTried(c Case, reason string) Result {
	r := newResult(c)
	r.Verdict, r.Reason = NotTried, reason
	return r
}
