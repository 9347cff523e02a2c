package fault

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
)

// struck asks about n messages and returns which of them, from 1, were struck.
func struck(s *Set, m Message, n int) []int {
	hit := []int{}
	for i := range n {
		if rule, _ := s.Ask(&m); rule != nil {
			hit = append(hit, i+1)
		}
	}
	return hit
}

func add(t *testing.T, s *Set, rules ...Rule) {
	t.Helper()
	for _, r := range rules {
		_, _, err := s.Add(r)
		require.NoError(t, err)
	}
}

func TestWhatARuleIsFor(t *testing.T) {
	push := Message{Socket: 1, Worker: "w", Topic: "run:r1", Event: "step:start", Size: 100}
	claim := Message{Socket: 1, Worker: "w", Topic: "worker:queue", Event: "claim", Size: 60}
	beat := Message{Socket: 1, Worker: "w", Topic: "phoenix", Event: Heartbeat}
	connect := Message{Worker: "w", Event: Connect}
	leave := Message{Socket: 1, Worker: "w", Topic: "run:r1", Event: Leave}
	tests := []struct {
		name string
		rule Rule
		want []string // of the messages above, by event
	}{
		{name: "anything", rule: Rule{Action: Drop}, want: []string{"step:start", "claim", Heartbeat, Leave}},
		{name: "anything that can crash", rule: Rule{Action: Crash}, want: []string{"step:start", "claim"}},
		{name: "anything with a token", rule: Rule{Action: Expire}, want: []string{"step:start", Leave}},
		{name: "event", rule: Rule{Action: Drop, Event: "claim"}, want: []string{"claim"}},
		{name: "connect", rule: Rule{Action: Drop, Event: Connect}, want: []string{Connect}},
		{name: "heartbeat", rule: Rule{Action: Withhold, Event: Heartbeat}, want: []string{Heartbeat}},
		{name: "run", rule: Rule{Action: Drop, Run: "r1"}, want: []string{"step:start", Leave}},
		{name: "other run", rule: Rule{Action: Drop, Run: "r"}, want: []string{}},
		{name: "topic", rule: Rule{Action: Drop, Topic: "worker:queue"}, want: []string{"claim"}},
		{name: "topics", rule: Rule{Action: Drop, Topic: "run:*"}, want: []string{"step:start", Leave}},
		{name: "part of a topic", rule: Rule{Action: Drop, Topic: "run:"}, want: []string{}},
		{name: "worker", rule: Rule{Action: Drop, Worker: "w", Event: "claim"}, want: []string{"claim"}},
		{name: "other worker", rule: Rule{Action: Drop, Worker: "x"}, want: []string{}},
		{name: "size", rule: Rule{Action: Drop, Over: 99}, want: []string{"step:start"}},
		{name: "size just reached", rule: Rule{Action: Drop, Over: 100}, want: []string{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.rule.Count = -1
			s := NewSet(1)
			add(t, s, tt.rule)
			got := []string{}
			for _, m := range []Message{push, claim, beat, connect, leave} {
				if rule, strike := s.Ask(&m); rule != nil {
					got = append(got, m.Event)
					require.Equal(t, 1, rule.ID)
					require.Equal(t, []any{m.Event, m.Topic, m.Worker, m.Socket}, []any{strike.Event, strike.Topic, strike.Worker, strike.Socket})
				}
			}
			require.Equal(t, tt.want, got)
			require.Len(t, s.Strikes(), len(got))
			require.EqualValues(t, len(got), s.Counts()[tt.rule.Action])
		})
	}
}

func TestHowOftenARuleStrikes(t *testing.T) {
	m := Message{Topic: "run:r1", Event: "run:log"}
	tests := []struct {
		name string
		rule Rule
		want []int
	}{
		{name: "once", rule: Rule{}, want: []int{1}},
		{name: "count", rule: Rule{Count: 3}, want: []int{1, 2, 3}},
		{name: "skip", rule: Rule{Skip: 2, Count: 2}, want: []int{3, 4}},
		{name: "no limit", rule: Rule{Count: -1}, want: []int{1, 2, 3, 4, 5, 6}},
		{name: "certainty", rule: Rule{Probability: 1}, want: []int{1, 2, 3, 4, 5, 6}},
		{name: "certainty, once", rule: Rule{Probability: 1, Count: 1}, want: []int{1}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			s := NewSet(1)
			tt.rule.Action = Drop
			add(t, s, tt.rule)
			require.Equal(t, tt.want, struck(s, m, 6))
		})
	}
}

func TestTheFirstRuleThatStrikesIsTheOnlyOne(t *testing.T) {
	s := NewSet(1)
	add(t, s, Rule{Action: Drop, Skip: 1}, Rule{Action: Crash, Event: "run:log"}, Rule{Action: Withhold, Count: -1})
	m := Message{Topic: "run:r1", Event: "run:log"}
	require.Equal(t, []int{1, 2, 3}, struck(s, m, 3))
	var order []Action
	for _, strike := range s.Strikes() {
		order = append(order, strike.Action)
	}
	require.Equal(t, []Action{Crash, Drop, Withhold}, order)
	rules := s.Rules()
	require.Equal(t, []int{2, 1, 1}, []int{rules[0].Seen, rules[1].Seen, rules[2].Seen})

	require.True(t, s.Remove(3))
	require.False(t, s.Remove(3))
	require.Empty(t, struck(s, m, 2), "the two others are used up")
	require.Equal(t, 2, s.Clear())
	require.Empty(t, s.Rules())
	require.Len(t, s.Strikes(), 3, "what happened stays on record")
	add(t, s, Rule{Action: Drop})
	require.Equal(t, 4, s.Rules()[0].ID, "numbers are not used again")
}

// A seed must make a chaos test repeatable though goroutines are not: what a
// topic meets must not depend on what happens on the others.
func TestSeed(t *testing.T) {
	draw := func(seed uint64, others int) map[string][]int {
		s := NewSet(seed)
		add(t, s, Rule{Action: Drop, Probability: 0.3}, Rule{Action: Crash, Probability: 0.3})
		got := make(map[string][]int)
		for i := range 200 {
			for topic := range 3 + others {
				m := Message{Topic: fmt.Sprint("run:", topic), Event: "run:log"}
				if rule, _ := s.Ask(&m); rule != nil && topic < 3 {
					got[m.Topic] = append(got[m.Topic], i*10+rule.ID)
				}
			}
		}
		return got
	}
	want := draw(7, 0)
	require.Equal(t, want, draw(7, 0))
	require.Equal(t, want, draw(7, 5), "more topics beside")
	require.NotEqual(t, want, draw(8, 0))
	require.NotEqual(t, want["run:0"], want["run:1"])
	var n int
	for _, hits := range want {
		n += len(hits)
	}
	require.InDelta(t, 600*(0.3+0.7*0.3), n, 60)
}

func TestNowStrikesAtOnce(t *testing.T) {
	s := NewSet(1)
	rule, strike, err := s.Add(Rule{Event: Now, Action: Expire, Run: "r1"})
	require.NoError(t, err)
	require.Equal(t, 1, rule.ID)
	require.Equal(t, []string{"now", "r1", "run:r1"}, []string{strike.Event, strike.Run, strike.Topic})
	require.Equal(t, []Strike{strike}, s.Strikes())
	require.Equal(t, Status{Rule: rule, Seen: 1, Struck: 1}, s.Rules()[0])
	require.Empty(t, struck(s, Message{Topic: "run:r1", Event: Join}, 3))
}

func TestStrikesAreBounded(t *testing.T) {
	s := NewSet(1)
	add(t, s, Rule{Action: Withhold, Count: -1})
	for i := range maxStrikes + 5 {
		s.Ask(&Message{Topic: "run:r1", Event: "run:log", Socket: i + 1})
	}
	got := s.Strikes()
	require.Len(t, got, maxStrikes)
	require.Equal(t, []int{6, maxStrikes + 5}, []int{got[0].Socket, got[maxStrikes-1].Socket})
	require.EqualValues(t, maxStrikes+5, s.Counts()[Withhold])
}

func TestAskedFromEverywhere(t *testing.T) {
	s := NewSet(1)
	add(t, s, Rule{Action: Drop, Count: 50}, Rule{Action: Crash, Probability: 0.5})
	var done sync.WaitGroup
	for i := range 8 {
		done.Go(func() {
			struck(s, Message{Topic: fmt.Sprint("run:", i), Event: "run:log"}, 100)
			_, _, _ = s.Rules(), s.Strikes(), s.Counts()
		})
	}
	done.Wait()
	require.EqualValues(t, 50, s.Counts()[Drop])
	require.Equal(t, 750, s.Rules()[1].Seen)
}

func TestStatusInJSON(t *testing.T) {
	s := NewSet(1)
	add(t, s, Rule{Action: Drop, Event: "claim"})
	written, err := json.Marshal(s.Rules())
	require.NoError(t, err)
	require.Equal(t, `[{"id":1,"event":"claim","count":1,"action":"drop","when":"before","seen":0,"struck":0}]`, string(written))
}

func BenchmarkAsk(b *testing.B) {
	m := Message{Topic: "run:r1", Event: "run:log"}
	bench := func(name string, rules ...Rule) {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			s := NewSet(1)
			for _, r := range rules {
				if _, _, err := s.Add(r); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				s.Ask(&m)
			}
		})
	}
	bench("baseline=no rules")
	bench("used up", Rule{Event: Now, Action: Drop})
	bench("another event", Rule{Event: "claim", Action: Drop})
	bench("by chance", Rule{Action: Drop, Probability: 1e-9})
}
