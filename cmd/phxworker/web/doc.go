// Package web is what a worker serves over HTTP: probes for an orchestrator, its
// status for programs and as a page for people, its metrics, and controls. A program that
// embeds a worker mounts the same with [New].
//
//	GET  /livez                 200 for as long as the process serves
//	GET  /startupz              200 once the worker runs, 503 before
//	GET  /readyz                200, or 503 with a line that says why not
//	GET  /status                [Status] as JSON
//	GET  /                      the same as a page that keeps itself up to date
//	GET  /metrics               what [Config.Metrics] serves
//	POST /pause, /resume        all groups, or ?group=NAME
//	PUT  /groups/{name}         {"slots":6}
//	POST /runs/{id}/cancel
//	POST /runs/{id}/notify
//	POST /drain
//	POST /claim                 200 after a claim that brought a run, 204 without
//
// # Who may do what
//
// Controls need the token of [Config.Token] as "Authorization: Bearer TOKEN", from
// wherever they come; without one they are off.
//
// Whoever reaches the server may read. The page and the status name runs, workflows, jobs, groups,
// this machine and the server's address; they have no secret in them, no data of
// a run and no message of an error of a run, which may quote data. A browser may be
// made to reach the server for a page of somebody else's: so they are shown only to
// who has the token, or names the worker as no such page can. The probes and the
// metrics, which name no run, are for all.
//
// POST /claim is open as they are when [Config.OpenClaim] is set, as it is to all with
// OpenFn's worker: a worker without a loop lives by it.
//
// # Bounds
//
// The time of a request, its head and its body are bounded, so that a client that
// is slow or greedy holds one connection for seconds. How many connections there
// are is not. No handler waits for a run; POST /claim waits for the server,
// for [claimPatience] at most.
package web
