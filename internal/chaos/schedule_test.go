package chaos

import (
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/slots"
)

// runTimeout is the workers'; the server's is a day, so that no token
// expires unless a fault says so.
const runTimeout = 2 * time.Minute

// schedule is everything that a seed decides.
type schedule struct {
	seed    uint64
	server  mockserver.Config
	worker  phxworker.Config
	workers int
	slots   map[string]int // by queue: each group has one queue, and no wildcard
	scripts []*script
	rules   []fault.Rule
	weather []gust
}

// gust is something that happens at a time, whatever the messages are.
type gust struct {
	after time.Duration // since the one before
	rule  fault.Rule
	// swap stops a worker and hires another; it aborts it when abort is set.
	swap, abort bool
	// stretch are faults that strike each time, for as long as the gust lasts.
	stretch []fault.Rule
	lasts   time.Duration
	// pause has the workers claim nothing, and each group have another size, while the
	// gust lasts.
	pause bool
}

var (
	runEvents = []string{"run:start", "step:start", "run:log", "step:complete", "run:complete"}
	fetches   = []string{"fetch:plan", "fetch:dataclip", "fetch:credential"}
)

// newStretch is a server that cannot do one thing, or most, for a while: a full database
// pool crashes each channel that asks it for something.
func newStretch(rng *rand.Rand) []fault.Rule {
	when := []fault.When{fault.Before, fault.After}[rng.IntN(2)]
	var rules []fault.Rule
	if rng.IntN(2) == 0 {
		for _, event := range append(slices.Clone(runEvents), fetches[:rng.IntN(len(fetches)+1)]...) {
			rules = append(rules, fault.Rule{Event: event, Action: fault.Crash, When: when, Count: -1})
		}
		return rules
	}
	all := append(slices.Clone(runEvents), fetches...)
	rule := fault.Rule{Event: all[rng.IntN(len(all))], Action: []fault.Action{fault.Crash, fault.Withhold, fault.Refuse, fault.Drop}[rng.IntN(4)], When: when, Count: -1}
	if rule.Action == fault.Refuse {
		rule.When, rule.Response = "", []byte(`"no"`)
	}
	return []fault.Rule{rule}
}

func newSchedule(seed uint64, runs int) *schedule {
	rng := rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))
	s := &schedule{seed: seed, workers: 1 + rng.IntN(3)}
	s.server = mockserver.Config{
		OpaqueTokens: true, RunTimeout: 24 * time.Hour, JanitorInterval: 48 * time.Hour, FaultSeed: seed + 1,
		WipeDataclips: rng.IntN(4) == 0, TranscriptLimit: 100 * runs,
	}
	if rng.IntN(4) == 0 {
		s.server.MaxTopics = 2 + rng.IntN(6)
	}
	s.slots = map[string]int{"fast_lane": 1 + rng.IntN(3), "manual": 1 + rng.IntN(8), "default": 1 + rng.IntN(4)}
	s.worker = phxworker.Config{
		Extensions: strings.Fields(os.Getenv("PHXWORKER_EXTENSIONS")),
		Groups:     slots.MustParse(fmt.Sprintf("fast_lane:%d manual:%d default:%d", s.slots["fast_lane"], s.slots["manual"], s.slots["default"])),
		Claim:      phxworker.Claim{DemandAll: rng.IntN(3) == 0}, Delivery: phxworker.Delivery{LogsAtMostOnce: rng.IntN(3) == 0},
		Limits: phxworker.Limits{RunTimeout: runTimeout},
	}
	for i := range runs {
		queue := []string{"fast_lane", "manual", "manual", "default"}[rng.IntN(4)]
		s.scripts = append(s.scripts, newScript(rng, fmt.Sprintf("r%d", i), queue))
	}
	catalog := rules(rng)
	for _, i := range rng.Perm(len(catalog))[:1+rng.IntN(8)] {
		rule := catalog[i]
		if rule.Count == 0 && rule.Probability == 0 {
			rule.Probability = 0.001 * math.Pow(40, rng.Float64()) // 0.1 % to 4 %
		}
		s.rules = append(s.rules, rule)
	}
	for range 1 + rng.IntN(8) {
		s.weather = append(s.weather, newGust(rng, s.scripts))
	}
	return s
}

// rules is what can go wrong with a message.
func rules(rng *rand.Rand) []fault.Rule {
	seconds := func(most int) time.Duration { return time.Duration(1+rng.IntN(most*1000)) * time.Millisecond }
	shapes := []string{`{"reason":["is invalid"]}`, `{"errors":{"id":["no"]}}`, `"no"`}
	shape := []byte(shapes[rng.IntN(len(shapes))])
	reason := func(r string) []byte { return []byte(`{"reason":"` + r + `"}`) }
	code := []int{1000, 1001, 1002, 1011, 1012, 4000}[rng.IntN(6)]
	return []fault.Rule{
		{Action: fault.Drop},
		{Action: fault.Drop, When: fault.After},
		{Action: fault.Close, Code: code},
		{Action: fault.Close, Code: code, When: fault.After},
		{Action: fault.Crash},
		{Action: fault.Crash, When: fault.After},
		{Action: fault.Crash, Topic: "run:*", When: fault.After},
		{Action: fault.Withhold},
		{Action: fault.Withhold, When: fault.Before},
		{Action: fault.Delay, Delay: seconds(60)},
		{Action: fault.Double},
		{Action: fault.Double, Delay: seconds(5)},
		{Action: fault.Reorder},
		{Action: fault.Stall, Delay: seconds(50)},
		{Action: fault.Restart, Delay: seconds(60)},
		{Action: fault.Restart, Code: 1006, When: fault.After, Delay: seconds(10)},
		{Action: fault.Refuse, Event: "run:start", Response: shape},
		{Action: fault.Refuse, Event: "step:start", Response: shape},
		{Action: fault.Refuse, Event: "step:complete", Response: shape},
		{Action: fault.Refuse, Event: "run:log", Response: shape},
		{Action: fault.Refuse, Event: "run:complete", Response: shape},
		{Action: fault.Refuse, Event: "fetch:plan", Response: shape},
		{Action: fault.Refuse, Event: "fetch:credential", Response: shape},
		{Action: fault.Refuse, Event: fault.Join, Topic: "run:*", Response: reason("not_found")},
		{Action: fault.Refuse, Event: fault.Join, Topic: "run:*", Response: reason("unauthorized")},
		{Action: fault.Refuse, Event: fault.Join, Topic: "run:*", Response: reason("too many channels joined")},
		{Action: fault.Refuse, Event: fault.Join, Topic: "worker:queue", Response: reason("unauthorized"), Probability: 0.3},
		{Action: fault.Refuse, Event: fault.Connect, Code: 503, Probability: 0.5},
		{Action: fault.Refuse, Event: fault.Connect, Code: 403, Probability: 0.3},
		{Action: fault.Drop, Event: fault.Connect, Probability: 0.5},
		{Action: fault.Delay, Event: fault.Connect, Delay: seconds(20), Probability: 0.5},
		{Action: fault.Withhold, Event: fault.Heartbeat, Probability: 0.1},
		{Action: fault.Expire, Event: fault.Join},
		{Action: fault.Delay, Event: "claim", Delay: 15 * time.Second, Count: 1 + rng.IntN(40)},
		{Action: fault.Withhold, Event: "claim", Probability: 0.05},
		{Action: fault.Drop, Event: "claim", When: fault.After, Probability: 0.05},
		{Action: fault.Crash, Event: fault.Join, Probability: 0.1},
	}
}

func newGust(rng *rand.Rand, scripts []*script) gust {
	g := gust{after: time.Duration(rng.IntN(90_000)) * time.Millisecond}
	down := time.Duration(rng.IntN(90_000)) * time.Millisecond
	code := []int{1000, 1002, 1011, 1012, 1006}[rng.IntN(5)]
	switch rng.IntN(12) {
	case 0, 1:
		g.rule = fault.Rule{Event: fault.Now, Action: fault.Restart, Code: code, Delay: down}
	case 2:
		g.rule = fault.Rule{Event: fault.Now, Action: fault.Stall, Delay: down}
	case 3:
		g.rule = fault.Rule{Event: fault.Now, Action: fault.Expire, Run: scripts[rng.IntN(len(scripts))].id}
	case 4:
		g.swap, g.abort = true, rng.IntN(2) == 0
	case 5, 6, 7:
		g.stretch, g.lasts = newStretch(rng), time.Duration(rng.IntN(45_000))*time.Millisecond
	case 8:
		g.rule = fault.Rule{Event: fault.Now, Action: fault.Restart, Code: code, Delay: down}
		g.pause, g.lasts = true, time.Duration(rng.IntN(90_000))*time.Millisecond
	default:
		g.rule = fault.Rule{Event: fault.Now, Action: fault.Drop}
		if code != fault.Abnormal {
			g.rule = fault.Rule{Event: fault.Now, Action: fault.Close, Code: code}
		}
	}
	return g
}
