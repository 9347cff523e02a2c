// Package claim asks the server for runs, one [Loop] for each slot group.
//
// A loop waits in one place for whatever may change, and decides everything afterwards ([State]), so
// that nothing that changes while the server is away is overlooked. When it is to claim, it asks the
// gate, reserves a slot, claims, and hands each run that comes back to a [Starter] together
// with its slot. It asks for nothing it has no slot for. Loops know nothing of each other: a
// busy group does not hold up another.
//
// # When a loop claims
//
//	a claim brought a run   again at once, while a slot is open
//	a claim brought none    after the back-off, or at once on a wake-up or a finished run
//	a claim failed          the same; the slot is free in between
//	no slot is open         not at all, until a slot of the own pool is freed
//	the server is away      not at all, until the [Claimer] is ready; then at once, if it is due
//
// A loop has one claim in flight at most. The back-off grows by 1.15 from MinBackoff to
// MaxBackoff, each pause off by up to a tenth either way, within these bounds, so that
// workers that started together drift apart. A claim that brought a run and a finished run
// start it over. A wake-up does not: the server wakes every worker for one run, and those that
// come too late would otherwise ask again and again.
//
// Wake-ups coalesce. Those that come while a claim is in flight cause one more
// claim, as soon as its reply is there: the server may have looked before the
// run was put in the queue. Those that come while the group is full cause none,
// since the claim that follows the next freed slot sees what they were about.
//
// A loop that is paused makes no claim of its own, whatever wakes it; runs that
// were claimed go on, and those that wait for a slot are started. [Loop.Claim]
// puts one claim all the same. A [Config.Gate] that holds a claim back counts as a claim that
// brought none.
//
// # More runs than asked for
//
// A run in a reply is claimed at the server, and nobody else will get it, so it
// is never dropped. Runs beyond the reserved slots take what is open in the pool;
// the rest are held, in order and with a warning, and start as slots are freed,
// before anything else is claimed.
//
// A server that takes runs back may give the same ones again. A claim that brings only runs
// which came more than five times is taken for one that brought none, and the loop rests for
// MaxBackoff, or until a wake-up or a finished run.
//
// # One ahead
//
// With [Options.Prefetch], a full loop claims one run more than it has slots
// for. It gets the next slot. One that has waited 10 s for it is returned, and
// after three of those in a row the loop claims ahead no more until a run has finished.
//
// # Tokens
//
// A run whose token the [Verifier] refuses is not started; the server will in time count it as
// lost. A claim that brings only such runs is followed by the back-off, so that a server which signs
// with the wrong key is not asked over and over.
//
// # Not promised
//
// A run is started at most once for each time the server hands it out; the same id
// twice is not noticed here. Whether a claim whose reply was lost took a run is
// not known, and not resolved here. Order between groups, and fairness, are the
// server's concern.
package claim
