// Package runner takes one claimed run from the join of its topic to its
// run:complete.
//
// [Runner.Run] joins run:<id>, fetches the plan, the input dataclip and the
// credentials, hands them to an [Engine] as a [Run], and reports to the server
// what the engine does: run:start, step:start, run:log, step:complete,
// run:complete, then it leaves. The engine decides what happens; the runner
// owns how it is told.
//
// # Rooms
//
// What comes in is a [claim.Run], what goes out an [Outcome]. In this package are the API of
// engines (engine.go, run.go, plan.go, reason.go) and the execution of a run (runner.go,
// follow.go, fetch.go, execute.go). Two others are below it, and know neither it nor each other:
//
//   - [delivery] tells the server what the engine does. Each [Run] has a [delivery.Outbox], into which
//     the methods of Run and [Step] write; it owns ids, timestamps, limits on size, which dataclips
//     may be referenced, order, repetition, the spool. Its package comment says what is promised.
//   - [terms] is what was agreed on with the server beyond the protocol: the lease of a run, its
//     cancellation, notices for its engine, its return to the queue. The lease plugs into the outbox as its
//     [delivery.Permit], the run into terms as its [terms.Hearer].
//
// # What is not promised
//
// An engine that ignores its context cannot be stopped from outside. The run
// ends without it after [Config.EngineGrace], and says so in the log.
package runner
