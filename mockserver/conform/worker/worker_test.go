package worker

import (
	"context"
	"flag"
	"net"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// inMemory is a target whose server is reached through memory, so that it can be tried in fake time.
func inMemory(f func(context.Context, Environment) error) Target {
	return Target{Func: f, listen: func() (net.Listener, dialer) {
		l := wstest.NewListener()
		return l, l.DialContext
	}}
}

// try tries a worker in fake time.
func try(t *testing.T, f func(context.Context, Environment) error, o suite.Options) (report *suite.Report) {
	t.Helper()
	_, err := runKey() // outside of the bubble, as it is there for all
	require.NoError(t, err)
	synctest.Test(t, func(t *testing.T) {
		report, err = suite.Run(t.Context(), Cases(inMemory(f)), o)
		require.NoError(t, err)
	})
	return report
}

var everything = []string{"lease", "release", "longpoll", "claim_ack", "status", "drain", "cancel", "notify", "attempt"}

func TestAGoodWorkerPassesAll(t *testing.T) {
	for _, spec := range suite.Specs() {
		o := suite.Options{Spec: spec, Slow: true, Parallel: 2}
		if testing.Short() {
			o.Cases = []string{"W1", "W5", "W6"}
		} else if spec != suite.Spec219 {
			o.Cases = []string{"W3"}
		}
		report := try(t, broken("", everything...), o)
		for _, r := range report.Results {
			if r.Verdict != suite.Passed && r.ID != "W3.27" && r.ID != "W3.28" {
				report.WriteResult(t.Output(), r)
				t.Fail()
			}
		}
		t.Log(report.Summary())
	}
}

// flaws are what a worker can do wrong, and which cases are red then: those and no others.
var flaws = []struct {
	name string
	red  string
	// offers are the extensions, for the cases of these alone. By default a worker has none.
	extended bool
	spec     suite.Spec
	// all says that the worker does not even connect, so that everything is red.
	all bool
}{
	{name: "another path", all: true, red: "W1.1"},
	{name: "another vsn", all: true, red: "W1.1"},
	{name: "a token without worker_id", all: true, red: "W1.2"},
	{name: "a token for a minute", red: "W1.3"},
	{name: "no versions", red: "W1.4"},
	{name: "refs repeat", red: "W1.5"},
	{name: "stays away after a crash", red: "W1.6 W2.10"},
	{name: "joins once", red: "W1.7"},
	{name: "hammers", red: "W1.8 W1.9"},
	{name: "no jitter", red: "W1.9"},
	{name: "logs its secret", red: "W1.10"},
	{name: "1000 is final", red: "W1.11"},
	{name: "1001 is final", red: "W1.12"},
	{name: "1011 is final", red: "W1.13"},
	{name: "1012 is final", red: "W1.14 W4.13"},
	{name: "1006 is final", red: "W1.9 W1.21 W1.15 W1.23 W2.10 W2.16 W2.17 W4.1 W4.2 W4.3 W4.4 W4.5 W4.6 W4.7 W4.8 W4.9 W4.26 W4.28"},
	{name: "exit code 0 when refused", red: "W1.16"},
	{name: "gives up at 401", red: "W1.16"},
	{name: "gives up at 403", red: "W1.17"},
	{name: "gives up at 503", red: "W1.8 W1.18"},
	{name: "no heartbeat", red: "W1.20 W1.21"},
	{name: "heartbeats go unheeded", red: "W1.21"},
	{name: "cannot read what is compressed", red: "W1.22"},
	{name: "answers no ping", red: "W1.23"},
	{name: "no capacity", red: "W2.1"},
	{name: "claims without queues", red: "W2.2 W2.11 W2.12"},
	{name: "claims more than it has room for", red: "W2.3 W2.4"},
	{name: "counts no claim that is under way", red: "W2.4 W2.13"},
	{name: "claims for each wake-up", red: "W2.5"},
	{name: "wakes up slowly", red: "W2.6"},
	{name: "claims time out", red: "W2.7"},
	{name: "heeds what comes twice", red: "W2.8 W2.18"}, // or it would know the run
	{name: "claims at once after a refusal", red: "W2.9"},
	{name: "claims under the old join", red: "W2.10"},
	{name: "all groups claim from all queues", red: "W2.11 W2.12"},
	{name: "one run at a time", red: "W2.12 W2.15"},
	{name: "spins", red: "W2.13"},
	{name: "rests after a run", red: "W2.14 W2.16"},
	{name: "rests for five seconds after a run", red: "W2.14"},
	{name: "forgets its loop when it was full", red: "W2.16"},
	{name: "a lost claim keeps its slot", red: "W2.17"},
	{name: "executes what it executes already", red: "W2.18"},
	{name: "a run that comes twice keeps its slot", red: "W2.18"},
	{name: "fetches before it has joined", red: "W2.8 W3.1"},
	{name: "trusts everybody", red: "W3.2"},
	{name: "trusts nobody", red: "W3.3"},
	{name: "starts late", red: "W3.4"},
	{name: "completes under the first job", red: "W3.5 W3.6 W3.7"},
	{name: "the run's input for all steps", red: "W3.6 W3.7"},
	{name: "the last branch's output", red: "W3.7"},
	{name: "a line behind the end", red: "W3.8"},
	{name: "an error beside the success", red: "W3.9"},
	{name: "everything succeeds", red: "W3.10 W3.11 W3.12"},
	{name: "no message", red: "W3.10"},
	{name: "a mistake is a failure", red: "W3.11"},
	{name: "no time limit", red: "W3.12"},
	{name: "a missing credential crashes", red: "W3.13"},
	{name: "any failure counts", red: "W3.14"},
	{name: "follows what is disabled", red: "W3.15"},
	{name: "sends what is too large", red: "W3.16"},
	{name: "sends outputs anyway", red: "W3.17"},
	{name: "no webhook response", red: "W3.18"},
	{name: "no globals", red: "W3.19"},
	{name: "keeps the configuration", red: "W3.20"},
	{name: "logs secrets", red: "W3.21"},
	{name: "no lines of jobs", red: "W3.21 W3.26 W4.1 W4.2 W4.3 W4.4 W4.5 W4.6 W4.7 W4.8 W4.9 W4.10 W4.21"},
	{name: "no input", red: "W3.4 W3.15 W3.22 W4.28"},
	{name: "no final dataclip", red: "W3.23"},
	{name: "a final state of any kind", red: "W3.23 W3.24"},
	{name: "milliseconds", red: "W3.25"},
	{name: "a long source", red: "W3.26 W4.1 W4.2 W4.3 W4.4 W4.5 W4.6 W4.7 W4.8 W4.9 W4.10 W4.21"},
	{name: "lines without their step", red: "W3.26"},
	{name: "outputs as objects", red: "W3.4 W3.5 W3.6 W3.7 W3.18 W3.23 W3.27 W4.1 W4.2 W4.3 W4.4 W4.5 W4.6 W4.7 W4.8 W4.9 W4.10 W4.11 W4.12 W4.18 W4.19", spec: suite.Spec215},
	{name: "outputs as lists", red: "W3.28"},
	{name: "does not leave", red: "W3.29"},
	{name: "ends at a crash", red: "W3.31"},
	{name: "no code hangs", red: "W3.32"},
	{name: "tries again for ever: not_found", red: "W3.33"},
	{name: "tries again for ever: unauthorized", red: "W3.34 W4.26"},
	{name: "not again: run:start", red: "W4.1"},
	{name: "gives up at run:start", red: "W4.1 W4.2"},
	{name: "not again: step:start", red: "W4.3"},
	{name: "stumbles over what was applied: step:start", red: "W4.4"},
	{name: "not again: run:log", red: "W4.5"},
	{name: "gives up at run:log", red: "W4.5 W4.6 W4.20"},
	{name: "not again: step:complete", red: "W4.7"},
	{name: "stumbles over what was applied: step:complete", red: "W4.8 W4.18"},
	{name: "not again: run:complete", red: "W4.9"},
	{name: "gives up at run:complete", red: "W4.9"},
	{name: "stumbles over what was applied: run:complete", red: "W4.10"},
	{name: "gives up when its topic crashes", red: "W4.11 W4.12"},
	{name: "gives up after three crashes", red: "W4.12"},
	{name: "forgets its runs when the server is away", red: "W4.13"},
	{name: "stumbles over refusals: fields", red: "W4.14"},
	{name: "stumbles over refusals: errors", red: "W4.15"},
	{name: "stumbles over refusals: text", red: "W4.16"},
	{name: "a refused line ends the run", red: "W4.17"},
	{name: "waits for ever", red: "W4.18 W4.19 W4.20 W4.27"},
	{name: "lets be what is not answered", red: "W4.19"},
	{name: "again under the same join", red: "W4.20"},
	{name: "again under the same join, in batches", red: "W4.20"},
	{name: "lines in another order", red: "W4.1 W4.2 W4.3 W4.4 W4.5 W4.6 W4.7 W4.8 W4.9 W4.10 W4.21"},
	{name: "sends U+0000", red: "W4.22"},
	{name: "sends half surrogates", red: "W4.23"},
	{name: "counts before it escapes", red: "W4.24"},
	{name: "one socket", red: "W4.25"},
	{name: "executes on nothing", red: "W4.28"},
	{name: "deaf", red: "W5.1 W5.2 W5.3 W5.4 W5.6 W5.7 W5.8"},
	{name: "exit code 1", red: "W5.1 W5.2"},
	{name: "drops its runs at SIGTERM", red: "W5.2 W5.3 W5.4 W5.5 W5.6"},
	{name: "claims after SIGTERM", red: "W5.3"},
	{name: "abandons its claims at SIGTERM", red: "W5.4"},
	{name: "deaf to the second", red: "W5.5 W5.6"},
	{name: "no report after the second signal", red: "W5.6"},
	{name: "waits for the server", red: "W5.7"},
	{name: "no goodbye", red: "W5.8"},
	{name: "wait_ms for everybody", red: "W6.1"},
	{name: "never renews", red: "W6.2 W6.3 W6.13", extended: true},
	{name: "reports what it has lost", red: "W6.3 W6.13", extended: true},
	{name: "returns nothing", red: "W6.4", extended: true},
	{name: "claims without wait_ms", red: "W6.5", extended: true},
	{name: "tries again for ever: lease_lost", red: "W6.6", extended: true},
	{name: "no status", red: "W6.7 W6.8 W6.12", extended: true},
	{name: "a status without runs", red: "W6.7", extended: true},
	{name: "says nothing of its drain", red: "W6.8", extended: true},
	{name: "deaf to drain", red: "W6.9", extended: true},
	{name: "deaf to cancel", red: "W6.10", extended: true},
	{name: "stumbles over notices", red: "W6.11", extended: true},
	{name: "offers what crashed", red: "W6.12", extended: true},
	{name: "tries for ever", red: "W6.13", extended: true},
}

var (
	all    = flag.Bool("all", false, "try each flaw with all cases of its chapter, and not only with some")
	chosen = flag.String("flaws", "", "try those flaws only whose first case begins with this, such as W5")
)

// A case that cannot fail is a defect, and so is one that fails for what another is about. By default each
// flaw is tried with the cases that it makes red, and with three others of their chapter.
func TestEachFlawMakesItsCasesRed(t *testing.T) {
	if testing.Short() {
		t.Skip("it takes a while")
	}
	for i, flaw := range flaws {
		if !strings.HasPrefix(flaw.red, *chosen) {
			continue
		}
		t.Run(flaw.name, func(t *testing.T) {
			var offers []string
			if flaw.extended {
				offers = everything
			}
			want := strings.Fields(flaw.red)
			if flaw.all {
				want = want[:1]
			}
			cases := slices.Concat(want, neighbours(want, i))
			if flaw.all {
				cases = want
			}
			report := try(t, broken(flaw.name, offers...), suite.Options{Cases: cases, Spec: flaw.spec, Slow: true, Parallel: 4})
			var red []string
			for _, r := range report.Results {
				if r.Verdict == suite.Failed {
					red = append(red, r.ID)
				}
			}
			require.ElementsMatch(t, want, red)
		})
	}
}

// costly cases take most of the time of all, and are near to none but themselves.
var costly = []string{"W1.20", "W1.21", "W2.5", "W4.12", "W4.24", "W4.25"}

// neighbours returns other cases of the chapter that the first of the ids is in: three, which others for each
// flaw, or all.
func neighbours(ids []string, turn int) (out []string) {
	chapter, _, _ := strings.Cut(ids[0], ".")
	for _, c := range Cases(Target{}) {
		if strings.HasPrefix(c.ID, chapter+".") && !slices.Contains(ids, c.ID) && (*all || !slices.Contains(costly, c.ID)) {
			out = append(out, c.ID)
		}
	}
	if *all {
		return out
	}
	const some = 3
	from := turn * some % max(1, len(out))
	return slices.Concat(out, out)[from : from+min(some, len(out))]
}

// Each case is shown to fail by some flaw.
func TestEveryCaseHasItsFlaw(t *testing.T) {
	shown := make(map[string]bool)
	for _, flaw := range flaws {
		for id := range strings.FieldsSeq(flaw.red) {
			shown[id] = true
		}
	}
	for _, c := range Cases(Target{}) {
		require.True(t, shown[c.ID], "no flaw of the scripted worker makes %s red: %s", c.ID, c.Title)
	}
}

// What a report says of a case has to be there, and ids are those of their chapter and never twice.
func TestCasesAreWhole(t *testing.T) {
	seen := make(map[string]bool)
	for _, c := range Cases(Target{}) {
		require.Regexp(t, `^W\d\.\d+$`, c.ID)
		require.False(t, seen[c.ID], "%s is there twice", c.ID)
		seen[c.ID] = true
		require.Contains(t, []suite.Level{suite.Must, suite.Should, suite.May}, c.Level, c.ID)
		require.NotEmpty(t, c.Title, c.ID)
		require.Regexp(t, `\.$`, c.Why, c.ID)
		require.NotEmpty(t, c.Source, c.ID)
	}
}
