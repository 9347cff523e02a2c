// Package lightning is OpenFn Lightning's side of the worker protocol: the queue
// of runs, the topics worker:queue and run:<id>, run tokens, what is validated
// and what a refusal looks like. It is a [phoenix.App] and keeps everything in
// memory.
//
// It follows Lightning's own source and tests (late 2025 to mid 2026). Where it
// deliberately differs:
//
//   - Ids of runs, jobs and dataclips given from outside may be any string; those
//     a worker makes (step_id, output_dataclip_id) must be UUIDs, as in Lightning.
//   - A join of a run that does not exist is not_found whatever its token;
//     Lightning looks at the token first.
//   - A second step:start or step:complete with the same ids is refused with
//     {"id":["has already been taken"]}.
//   - final_state must be an object, or the run:complete is refused with
//     {"errors":{"final_state":["is invalid"]}}: Lightning loses such a run
//     (OpenFn/lightning#4627). As in Lightning it is not looked at when there is
//     a final_dataclip_id.
//   - The output_dataclip of a step may be any JSON, as a text or, since 2.19, as it is;
//     a text that is no JSON crashes the channel, as in Lightning. [Dataclips] has
//     older and coming versions.
//   - A binary push is taken where the payload does not matter, and as a
//     run:log, whose message it then is.
//
// A plan is taken for what it says: one that can hardly mean it is queued as well, and [Doubts] tells why.
//
// With Config.Extensions it knows more than Lightning does, for those who ask. That is
// in the files extended_*.go, and everything else is Lightning. There, a run has one
// owner, from a claim until the run ends or is taken from it; each owner has a token of its own,
// and what comes with another one is refused. The order of what happens is that in which it
// takes the service's mutex: an event of an owner either counts before the run is taken from it,
// or is refused.
//
// Writes are not idempotent: a log line sent twice is stored twice.
//
// Concurrency: all methods may be called at once. One mutex guards the runs;
// signing a run token, the only expensive thing here, is done outside of it. What is
// sent to topics under it never blocks.
package lightning
