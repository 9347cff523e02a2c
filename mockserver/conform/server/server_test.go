package server_test

import (
	"context"
	"flag"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/server"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// breakage is one thing that is wrong with a server.
type breakage struct {
	name     string
	red      []string // patterns of the cases that fail over it: each fails, and no other
	signed   bool     // the tokens of runs are
	settings func(*settings)
	breaks   func(*world) hooks
}

// try tries all cases on servers that are broken in one way.
func try(t *testing.T, b breakage, o suite.Options) *suite.Report {
	t.Helper()
	o.Parallel, o.Slow = 1, true
	report, err := suite.Run(context.Background(), server.Cases(worlds(t, b)), o)
	require.NoError(t, err)
	return report
}

// In fake time, and in memory; the command's own tests do some of it over TCP.
func TestTheMockServerConforms(t *testing.T) {
	for _, mode := range []mockserver.Mode{mockserver.Lightning, mockserver.Extended} {
		t.Run(string(mode), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				o := suite.Options{Slow: true, Parallel: 1}
				if testing.Short() {
					o.Cases = []string{"S1", "S3", "S5", "S6", "S7", "S8", "S9"}
				}
				report, err := suite.Run(context.Background(), server.Cases(mocks(mode)), o)
				require.NoError(t, err)
				for _, r := range report.Results {
					unknown := mode == mockserver.Lightning && (strings.Contains(r.Reason, "announces no") || strings.Contains(r.Reason, "knows no keys"))
					require.True(t, r.Verdict == suite.Passed || unknown, report.Text(r))
				}
				require.Equal(t, mode == mockserver.Extended, report.Shown())
			})
		})
	}
}

// mocks is a mock server in memory for each case.
func mocks(mode mockserver.Mode) server.Servers {
	return server.Fresh(func(context.Context) (server.Target, func(), error) {
		cfg, err := server.MockConfig(mode)
		if err != nil {
			return server.Target{}, nil, err
		}
		m, err := mockserver.New(cfg)
		if err != nil {
			return server.Target{}, nil, err
		}
		listener, end := serve(m)
		target := server.MockTarget(m)
		target.URL, target.Dial = "ws://mock/worker", listener.DialContext
		return target, func() { _ = m.Close(); end() }, nil
	})
}

// Who has mistyped the URL must not look for another secret.
func TestAPathThatIsNotThereIsNoWrongSecret(t *testing.T) {
	for url, want := range map[string]string{
		"ws://mock":                  "404 for the path /websocket (",
		"ws://mock/worker/websocket": "404 for the path /worker/websocket/websocket (",
	} {
		t.Run(url, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				servers := server.Fresh(func(context.Context) (server.Target, func(), error) {
					m, err := mockserver.New(mockserver.Config{})
					if err != nil {
						return server.Target{}, nil, err
					}
					listener, end := serve(m)
					target := server.MockTarget(m)
					target.URL, target.Dial = url, listener.DialContext
					return target, func() { _ = m.Close(); end() }, nil
				})
				report, err := suite.Run(t.Context(), server.Cases(servers), suite.Options{Cases: []string{"S1.1", "S1.2", "S1.3", "S1.4"}})
				require.NoError(t, err)
				for _, r := range report.Results {
					require.Equal(t, suite.Failed, r.Verdict)
					require.Contains(t, r.Failures[0].Came, want)
					require.NotContains(t, r.Failures[0].Came, "secret")
				}
			})
		})
	}
}

// What a case that is cut off has claimed must not come back in the middle of the next, which would be blamed.
func TestACaseThatIsCutOffLeavesNoRunBehind(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		cfg, err := server.MockConfig(mockserver.Extended)
		require.NoError(t, err)
		m, err := mockserver.New(cfg)
		require.NoError(t, err)
		listener, end := serve(m)
		defer func() { _ = m.Close(); end() }()
		target := server.MockTarget(m)
		target.URL, target.Dial = "ws://mock/worker", listener.DialContext
		ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // the case takes twice as long
		defer cancel()
		report, err := suite.Run(ctx, server.Cases(server.Shared(target)), suite.Options{Cases: []string{"S7.5"}})
		require.NoError(t, err)
		require.Equal(t, suite.NotTried, report.Results[0].Verdict)
		open := m.Runs(mockserver.RunQuery{States: []mockserver.State{"available", "claimed", "started"}})
		require.Empty(t, open.Runs)
		require.EqualValues(t, 1, m.Stats().Enqueued)
	})
}

// every makes the test of broken servers try all cases on each, which takes a minute.
var every = flag.Bool("all", false, "try all cases on each broken server")

// heavy cases are tried on the servers only that they are meant for: they are there for 10 MB.
var heavy = []string{"S2.9", "S2.10"}

var broken = slices.Concat(brokenConnect, brokenFrames, brokenQueue, brokenRuns, brokenEvents, brokenExtensions, brokenLeases, brokenSteering)

// Each server is broken in one way, and the cases that find it are known. So no case is there that cannot fail, and
// none fails over what it is not about.
func TestEachCaseFindsWhatItIsAbout(t *testing.T) {
	cases := server.Cases(server.Servers{})
	found := make(map[string]bool)
	for i, b := range broken {
		tried, red := selection(t, cases, b, i)
		for _, id := range red {
			found[id] = true
		}
		if testing.Short() && (i%4 > 0 || slices.ContainsFunc(heavy, func(id string) bool { return slices.Contains(red, id) })) {
			continue // the race detector sees enough
		}
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				report := try(t, b, suite.Options{Cases: tried})
				for _, r := range report.Results {
					switch bad := slices.Contains(red, r.ID); {
					case bad && r.Verdict != suite.Failed:
						t.Errorf("%s does not find it: %s", r.ID, report.Text(r))
					case !bad && r.Verdict == suite.Failed:
						t.Errorf("%s is not about it: %s", r.ID, report.Text(r))
					}
				}
			})
		})
	}
	for _, c := range cases {
		if !found[c.ID] {
			t.Errorf("%s cannot fail: there is no broken server that it finds (%s)", c.ID, c.Title)
		}
	}
}

// selection returns the ids of the cases that are tried on a broken server, and of those among them that fail. Unless all
// are to be tried, some of the others are, other ones for each server.
func selection(t *testing.T, cases []suite.Case, b breakage, turn int) (tried, red []string) {
	t.Helper()
	failing, err := suite.Select(cases, b.red)
	require.NoError(t, err, b.name)
	for _, c := range failing {
		red = append(red, c.ID)
	}
	if len(red) > 20 {
		red = slices.DeleteFunc(red, func(id string) bool { return slices.Contains(heavy, id) })
	}
	const share = 40
	for i, c := range cases {
		of := *every || (i+turn)%share == 0 && !testing.Short()
		if slices.Contains(red, c.ID) || of && !slices.Contains(heavy, c.ID) {
			tried = append(tried, c.ID)
		}
	}
	return tried, red
}
