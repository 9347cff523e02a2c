// Package runner takes one claimed run from the join of its topic to its
// run:complete.
//
// [Runner.Run] joins run:<id>, fetches the plan, the input dataclip and the
// credentials, hands them to an [Engine] as a [Run], lets the [Execution] that it
// prepares take its course, and reports to the server what the engine does: run:start,
// step:start, run:log, step:complete, run:complete, then it leaves. The engine decides what happens; the runner
// owns how it is told: ids, timestamps, limits on size, which dataclips may be
// referenced, the reason of the run.
//
// # Order and delivery
//
// The events of one run are sent one at a time, in the order in which the
// engine made them; each waits for the server's reply to the one before. Runs
// do not wait for each other. An event that could not be sent is sent once the
// topic is joined again. One whose outcome is unknown, because the connection
// was lost before the reply came, the channel crashed, or no reply came in time, is sent again
// after a rejoin. It counts as arrived once the server says ok to it, or refuses a
// second copy in Lightning's words for an event that is there; never for a crash.
//
// # Back-pressure
//
// The engine runs ahead of the connection, up to [Config.OutboxBytes] of events
// that the server has not acknowledged; then the methods of [Run] and [Step]
// block. A step's start and end are taken in any case; a line that still waits for room when
// the run's context ends is left out, and counted in [Stats.Undelivered].
//
// # What is not promised
//
// An engine that ignores its context cannot be stopped from outside. The run
// ends without it after [Config.EngineGrace], and says so in the log.
package runner
