package suite

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"time"
)

// T is what a case is given. Its methods may be called from any goroutine, but for Fatalf and Skipf,
// which end the goroutine of Run and belong there.
type T struct {
	ctx   context.Context
	spec  Spec
	began time.Time

	mu       sync.Mutex // guards what follows
	failures []Failure
	skipped  string
	frames   []Frame
	outputs  []Output
	cleanups []func()
}

// Failure is one thing that was not as it should be.
type Failure struct {
	Expected string `json:"expected"` // what the case asks for
	Came     string `json:"came"`     // what was seen instead
}

// String is the failure in one sentence.
func (f Failure) String() string { return "expected " + f.Expected + "; came: " + f.Came }

// Direction says which way a frame went.
type Direction string

// The directions.
const (
	ToServer Direction = "to server"
	ToClient Direction = "to client"
)

// Frame is a message that the case saw, for the report.
type Frame struct {
	After      time.Duration `json:"after_ns"`             // since the case began
	Connection int           `json:"connection,omitempty"` // counts from 1
	Direction  Direction     `json:"direction"`
	Topic      string        `json:"topic,omitempty"`
	Event      string        `json:"event,omitempty"`
	// Text is the message, or its beginning; what is binary is quoted. Tokens are left out.
	Text string `json:"text"`
}

// Output is what a program wrote, or another text that helps to understand a failure.
type Output struct {
	Name string `json:"name"`
	Text string `json:"text"`
}

// Context ends at the limit of the case, or when the whole of it is cancelled.
func (t *T) Context() context.Context { return t.ctx }

// Spec is the version of Lightning that is asked for.
func (t *T) Spec() Spec { return t.spec }

// Began is when the case began.
func (t *T) Began() time.Time { return t.began }

// Failf says that the case has failed, and goes on: what was expected, in words that go on from
// "expected", and what came instead.
func (t *T) Failf(expected, format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.failures = append(t.failures, Failure{Expected: expected, Came: Redact(fmt.Sprintf(format, args...))})
}

// Fatalf is Failf, and ends the case.
func (t *T) Fatalf(expected, format string, args ...any) {
	t.Failf(expected, format, args...)
	runtime.Goexit()
}

// Skipf ends the case as not tried. The reason goes on from "not tried: ", such as "the worker announces
// no leases". What has failed before stays failed.
func (t *T) Skipf(format string, args ...any) {
	t.mu.Lock()
	t.skipped = Redact(fmt.Sprintf(format, args...))
	t.mu.Unlock()
	runtime.Goexit()
}

// Failed reports whether the case has failed so far.
func (t *T) Failed() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return len(t.failures) > 0
}

// Note adds a frame to those of the report. After is filled in when it is zero.
func (t *T) Note(f Frame) {
	if f.After == 0 {
		f.After = time.Since(t.began)
	}
	f.Text = Redact(f.Text)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.frames = append(t.frames, f)
}

// Output adds a text to the report, such as what a program wrote to stderr.
func (t *T) Output(name, text string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.outputs = append(t.outputs, Output{Name: name, Text: Redact(text)})
}

// Cleanup calls f when the case is over, before its result is made; the last one first.
func (t *T) Cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// tokens are what opens a socket or a topic: a field of a payload, a parameter of a URL, or any JWT.
var tokens = regexp.MustCompile(`("token"\s*:\s*")[^"]+|([?&]token=)[^&\s"]+|()\beyJ[\w-]+\.[\w-]+\.[\w-]*`)

// Redact leaves out the tokens in a text: a report is passed around.
func Redact(text string) string { return tokens.ReplaceAllString(text, "$1$2…") }

// execute runs the case, which has a limit, and returns what is known of it.
func (c Case) execute(ctx context.Context, spec Spec) Result {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Limit, fmt.Errorf("the case has a limit of %v", c.Limit))
	defer cancel()
	t := &T{ctx: ctx, spec: spec, began: time.Now()}
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer t.clean()
		defer t.recover()
		c.Run(t)
	}()
	<-done
	return t.result(c)
}

// recover makes a failure of a panic: it is a fault of the kit, but it must not end the other cases.
func (t *T) recover() {
	if r := recover(); r != nil {
		t.Failf("the case to come to an end", "the kit panicked, which is a fault of its own: %v", r)
	}
}

// clean calls the cleanups, also those behind one that ends the goroutine.
func (t *T) clean() {
	t.mu.Lock()
	n := len(t.cleanups)
	if n == 0 {
		t.mu.Unlock()
		return
	}
	f := t.cleanups[n-1]
	t.cleanups = t.cleanups[:n-1]
	t.mu.Unlock()
	defer t.clean()
	defer t.recover()
	f()
}

func (t *T) result(c Case) Result {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := newResult(c)
	r.Took = time.Since(t.began)
	r.Failures, r.Outputs = t.failures, t.outputs
	r.Frames = slices.Clone(t.frames)
	slices.SortStableFunc(r.Frames, func(a, b Frame) int { return cmp.Compare(a.After, b.After) })
	switch {
	case len(t.failures) > 0:
		r.Verdict = Failed
	case t.skipped != "":
		r.Verdict, r.Reason = NotTried, t.skipped
	default:
		r.Verdict = Passed
	}
	return r
}
