package web

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/channel"
)

// verdict returns how the worker fares, and the sentence for the top of the page.
func (s *Status) verdict() (health Health, sentence string) {
	runs := count(len(s.Runs), "run")
	switch {
	case s.Phase == phxworker.PhaseNew:
		return Attention, "Starting."
	case s.Phase == phxworker.PhaseDraining && len(s.Runs) == 0 && s.asking():
		return Attention, "Draining: waits for the server to answer a claim, of which a run may come."
	case s.Phase == phxworker.PhaseStopping && len(s.Runs) == 0 && s.asking():
		return Attention, "Stopping: waits for the server to answer a claim; a run that comes of it is not executed."
	case (s.Phase == phxworker.PhaseDraining || s.Phase == phxworker.PhaseStopping) && len(s.Runs) == 0:
		return Attention, "Draining: claims no more, and no run is under way."
	case s.Phase == phxworker.PhaseDraining:
		return Attention, fmt.Sprintf("Draining: claims no more, waits for %s to finish.", runs)
	case s.Phase == phxworker.PhaseStopping:
		return Attention, fmt.Sprintf("Stopping: cancels %s, and reports that.", runs)
	case s.Phase == phxworker.PhaseStopped:
		return Bad, "Stopped."
	case !s.Queue.Joined:
		return s.unjoined()
	case len(s.Unable) > 0 && s.Unable[0].Pending:
		return Attention, "Starting: the engine is asked whether it can execute runs."
	case len(s.Unable) > 0:
		return Bad, "Claims nothing: " + whyUnable(s.Unable[0]) + "."
	}
	health, sentence = s.claiming()
	switch unheard := unheard(s.Groups); {
	case unheard > lenience:
		health, sentence = Bad, fmt.Sprintf("%s But %s.", sentence, answersNone(unheard))
	case unheard > 0:
		health, sentence = Attention, fmt.Sprintf("%s But %s.", sentence, answersNone(unheard))
	}
	if refused := s.refused(); refused > 0 { // each is lost until somebody mends the key
		if health == Good {
			health = Attention
		}
		sentence = fmt.Sprintf("%s But it refused %s because of a bad token.", sentence, count(refused, "run"))
	}
	return health, sentence
}

// asking reports whether a claim is not answered yet.
func (s *Status) asking() bool {
	return slices.ContainsFunc(s.Groups, func(g phxworker.GroupStats) bool { return g.Claimed > 0 })
}

func (s *Status) refused() (n int) {
	for _, g := range s.Groups {
		n += toInt(g.Refused)
	}
	return n
}

// claiming says what the groups of a worker do that is on the queue.
func (s *Status) claiming() (health Health, sentence string) {
	up := fmt.Sprintf("Up, on the queue for %s", s.Queue.For)
	var paused, request, full, claiming []string
	for _, g := range s.Groups {
		switch {
		case g.OnRequest:
			request = append(request, g.Name)
		case g.Paused:
			paused = append(paused, g.Name)
		case g.Open == 0 && g.Claimed == 0:
			full = append(full, g.Name)
		default:
			claiming = append(claiming, g.Name)
		}
	}
	switch {
	case len(paused)+len(full)+len(claiming) == 0:
		return Good, up + ", claims when it is asked to."
	case len(paused) > 0 && len(request)+len(full)+len(claiming) == 0:
		return Attention, up + ", but paused: claims nothing until it is resumed."
	case len(paused) > 0:
		return Attention, fmt.Sprintf("%s, but %s paused.%s", up, are(paused), busy(full, claiming))
	case len(claiming) == 0:
		return Good, up + ", and busy: all slots have runs."
	case len(full) > 0:
		return Good, up + "." + busy(full, claiming)
	}
	return Good, up + ", claiming."
}

// unjoined says why the queue is not joined. The runs under way go on meanwhile.
func (s *Status) unjoined() (health Health, sentence string) {
	health = Attention
	if !s.Ready {
		health = Bad
	}
	switch {
	case s.Connection.State == channel.Connected.String():
		sentence = fmt.Sprintf("Connected, but not on the queue for %s", s.Queue.For)
		if unheard := unheard(s.Groups); unheard > lenience {
			sentence += ", and " + answersNone(unheard)
		}
	case s.Connection.Connections > 0:
		sentence = fmt.Sprintf("Connection lost, not on the queue for %s", s.Queue.For)
	default:
		sentence = "Not connected yet"
	}
	if s.Connection.Attempts > 0 {
		sentence += "; " + count(s.Connection.Attempts, "attempt") + " failed"
	}
	sentence += "."
	if len(s.Runs) > 0 {
		sentence += fmt.Sprintf(" Meanwhile %s under way.", areRuns(len(s.Runs)))
	}
	return health, sentence
}

func busy(full, claiming []string) string {
	var text string
	if len(full) > 0 {
		text += " Busy: " + strings.Join(full, ", ") + "."
	}
	if len(claiming) > 0 {
		text += " Claiming: " + strings.Join(claiming, ", ") + "."
	}
	return text
}

func are(names []string) string {
	if len(names) == 1 {
		return names[0] + " is"
	}
	return strings.Join(names, ", ") + " are"
}

func areRuns(n int) string {
	if n == 1 {
		return "1 run is"
	}
	return fmt.Sprintf("%d runs are", n)
}

// count returns "1 run" or "2 runs".
func count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// toInt takes counters to where numbers of things are put into words.
func toInt(n uint64) int { return int(min(n, math.MaxInt32)) }
