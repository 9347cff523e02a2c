// Package claim asks the server for runs, one [Loop] for each slot group.
//
// A loop waits in one place for everything that may change, and decides afterwards what to do
// ([State]). So it misses nothing that changes while the server is away. To claim, it asks the gate,
// reserves a slot and sends the claim. It hands each run of the reply to a [Starter], together with
// a slot. It never asks for more runs than it has slots, except with [Options.Prefetch]. Loops know
// nothing of each other: a busy group does not hold up another.
//
// # When a loop claims
//
//	a claim brought a run   again at once, while a slot is open
//	a claim brought none    after the back-off, or at once on a wake-up or a finished run
//	a claim failed          the same; the slot is open meanwhile
//	no slot is open         when a slot of its own pool is freed
//	the server is away      when the [Claimer] is ready, at once if the claim is due by then
//
// A loop has one claim in flight at most. The back-off grows by the factor 1.15 from MinBackoff to
// MaxBackoff. Each wait is random by a tenth either way, within these bounds, so that workers that
// started together drift apart. A claim that brought a run starts the back-off over, and so does a
// finished run. A wake-up does not: the server wakes every worker for one run, and those that come
// too late would otherwise ask again and again.
//
// Wake-ups coalesce. Wake-ups that come while a claim is in flight cause one more claim as soon as
// its reply is there: the server may have looked before the run was in the queue. Wake-ups that come
// while the group is full cause none: the claim after the next freed slot answers them.
//
// A loop that is paused claims nothing by itself, whatever wakes it. Its runs go on, and runs that
// wait for a slot are started. [Loop.Claim] makes one claim all the same. A claim that a
// [Config.Gate] holds back counts as a claim that brought no run.
//
// # More runs than asked for
//
// A run in a reply is claimed at the server, and nobody else will get it, so it is never dropped.
// Runs beyond the reserved slots take the slots that are open in the pool. The rest are held, in
// order and with a warning, and are started as slots are freed, before the next claim.
//
// A server that takes runs back may give the same runs again. When a claim brings only runs that came
// more than five times, the loop rests for MaxBackoff, or until a wake-up or a finished run.
//
// # One ahead
//
// With [Options.Prefetch], a loop whose slots are all in use claims one run more. That run gets the
// next slot. After 10 s without a slot it is returned to the queue. After three such returns in a row
// the loop claims ahead no more until a run has finished.
//
// # Tokens
//
// A run whose token the [Verifier] refuses is not started; the server will in time count it as lost,
// unless [Config.Refused] returns it. A claim that brings only such runs is followed by the back-off,
// so that a server which signs with the wrong key is not asked over and over.
//
// # Not promised
//
// A run is started once for each time the server hands it out; the same id twice is not noticed here.
// Whether a claim whose reply was lost took a run is not known. Order between groups and fairness are
// the server's concern.
package claim
