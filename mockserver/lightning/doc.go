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
// Nothing here is more than Lightning. What the mock server's extended mode adds is in package
// extended, which wraps the channels of a [Service] and is plugged in by two small
// interfaces: [Beyond], which is told what becomes of runs, and [Guard], which may refuse
// events. Both are nil in Lightning's mode.
//
// Writes are not idempotent: a log line sent twice is stored twice.
//
// Concurrency: all methods may be called at once. One mutex guards the runs;
// signing a run token, the only expensive thing here, is done outside of it. What is
// sent to topics under it never blocks.
package lightning
