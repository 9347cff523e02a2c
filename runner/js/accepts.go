package js

import (
	"context"
	"regexp"
	"time"

	"github.com/phxworker/phxworker/runner"
)

var _ runner.Accepter = (*Engine)(nil)

// otherwise is what QuickJS may do otherwise than Node: the words of errors that a job catches, numbers without an end
// in a state, the order that functions give which contradict themselves, as (a, b) => a > b does, and whatever tells
// that jobs there are in a context of their own, and their states are not.
var otherwise = regexp.MustCompile(`\b(catch|allSettled|stack|instanceof|constructor|prototype|__proto__|getPrototypeOf|setPrototypeOf|BigInt|collections)\b|\b[0-9]+n\b|\b(sort|toSorted)\(\s*[^\s)]`)

var dates = regexp.MustCompile(`\bDate\b`)

// inUTC tells whether the worker's time zone is UTC, the only one whose name is known here.
var inUTC = func() bool {
	for _, at := range []time.Time{time.Unix(0, 0), time.Date(2000, 7, 1, 0, 0, 0, 0, time.UTC), time.Now()} {
		if name, offset := at.Local().Zone(); name != "UTC" || offset != 0 {
			return false
		}
	}
	return true
}()

// Accepts implements [runner.Accepter]: a plan that needs nothing but what is built in, and whose code does not name
// what QuickJS may do otherwise than Node.
func (e *Engine) Accepts(ctx context.Context, plan *runner.Plan) error {
	for i := range plan.Jobs {
		if word := namesOtherwise(plan.Jobs[i].Body); word != "" {
			return &refusal{&plan.Jobs[i], "says " + word + ", which may come to something else in Node", false}
		}
	}
	for i := range plan.Edges {
		if word := namesOtherwise(plan.Edges[i].Condition); word != "" {
			return &refusal{nil, "says " + word + ", which may come to something else in Node", false}
		}
	}
	return e.Refuses(ctx, plan)
}

func namesOtherwise(code string) string {
	if word := otherwise.FindString(code); word != "" || inUTC {
		return word
	}
	return dates.FindString(code)
}
