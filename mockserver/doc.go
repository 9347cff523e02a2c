// Package mockserver is a mock of OpenFn Lightning as its workers see it: a
// websocket endpoint at /worker/websocket that speaks Phoenix Channels like a
// real Phoenix server, and behind it Lightning's queue, run topics, tokens and
// validation. It is imported in tests the way net/http/httptest is, and runs on
// its own as cmd/mockserver.
//
//	server := mockserver.NewTest(t, mockserver.Config{}) // or Start, outside of tests
//	// a worker connects to server.URL() with server.WorkerToken("my-worker"), or with a
//	// token that it makes of server.Secret()
//	id, err := server.Enqueue(mockserver.Run{Plan: plan})
//	result, err := server.Wait(ctx, id)
//
// The same can be done over HTTP; errors are one line of JSON each:
//
//	POST /run                 a plan; ?queue=, ?priority=, ?wakeup   201 {"id"}, 400, 409, 422, 429
//	POST /run?wait=SECONDS    the same, and waits                    200 [Result], 504
//	POST /run/{id}/cancel     {"message"}, or no body                200, 202 {"id","state"}, 409, 422
//	POST /run/{id}/notify     a JSON object                          200 {"id"}, 409, 422
//	POST /drain               tells all workers to drain             200 {"workers"}
//	GET  /workers             a list of [WorkerRecord]
//	GET  /run/{id}            a [RunRecord]: state, reason, times, every event received
//	POST /credentials/{id}    a body for fetch:credential; PUT does the same
//	POST /dataclips/{id}      an input for the runs that name it; PUT does the same
//	GET  /stats               [Stats]
//	POST /faults              a fault, or a list of them          201 {"ids"}, 422
//	GET  /faults              the seed, the rules and what they struck
//	DELETE /faults            all rules; /faults/{id} one of them
//
// A plan posted may carry fields of its own, which workers do not see: dataclip, the run's
// input, credentials, an object of bodies by id, priority, and key, see [Run].
//
// # Modes
//
// By default the server knows what Lightning knows. In the mode [Extended] it also knows
// extensions of the protocol, for clients that offer them when they join: leases, release,
// claims that wait, and more; docs/mockserver.md and docs/extensions say
// what they are. Then a run has one owner at any time, and whatever another sends about it
// is refused: its [RunRecord] names all owners and, by number, the one that sent each event.
//
// # Faults
//
// A server does what real ones do on bad days when it is told to: by
// Config.Faults, [Server.AddFault] or POST /faults. A fault is a [fault.Rule],
// which in JSON is an object of these fields:
//
//	event         claim, run:complete, …, join, leave, heartbeat, connect (the upgrade), or now
//	topic, run, worker    whose: a topic (run:* is all of them), a run's id, a worker_id
//	over          only messages of more bytes than this
//	skip, count   let so many pass, strike so many: by default one; -1 is no limit
//	probability   strike by chance, then without a limit by default
//	action        drop, close, crash, refuse, withhold, delay, double, reorder, stall, restart, expire
//	when          before or after the message is applied
//	delay         such as "15s"
//	code          a close code, or the HTTP status of a refused upgrade
//	response      what refuse answers
//
// What each action does and takes is said at [fault.Drop] and its neighbours, and
// by example in docs/mockserver.md. Each strike is on record: in [Server.Faults]
// and GET /faults, in [Stats], and in the [RunRecord] of its run. What a seed
// repeats and what it cannot is said by package fault.
//
// What it shares with the client of this module is the frame codec alone,
// and that is pinned by recordings of a real server. How the two halves work
// is described by the packages [phoenix] and [lightning]; what the extended mode adds, by
// [extended].
//
// Concurrency: all methods may be called at once. Everything is kept in
// memory, within bounds: ended runs up to Config.KeepRuns, frames up to
// Config.TranscriptLimit. Time is taken from package time alone, so that a
// server made by [New] works inside a testing/synctest bubble.
//
// Not promised: durability, more than one node, Lightning's web interface.
package mockserver
