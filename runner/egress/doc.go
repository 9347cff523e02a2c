// Package egress says where jobs may connect to and how much they may exchange, keeps them to it, and counts.
//
// A [Policy] is what an operator writes down: "public,private,!*.evil.example". A [Guard] keeps all runs of a worker to one
// and counts for all. [Guard.Open] returns the [Traffic] of one run, which makes its connections. What a job asks for is a [Call]
// until it has the answer, and a request has a [Turn] besides: others begin when the job has the response, and it ends when that was read.
//
// # What holds
//
// A connection is judged by the address that is dialled, after name resolution, each time one is made: no name, no
// redirect and no answer of a name server leads past it. A name is judged as well, before it is resolved.
//
// Of a run's requests, some are under way and the others wait. What a run holds in
// the worker's memory meanwhile is bounded by [Limits], whatever it asks for and whatever servers answer.
//
// # What is not promised
//
// What a job reaches by way of a host that it may reach, such as a proxy, is not seen. A name that is refused can be
// reached under another name, or by its address. To resolve a name tells name servers that name. Responses that a job leaves
// unread keep their connections, until the time of an exchange is over.
//
// All types may be used concurrently, but for a [Call], which one goroutine answers.
package egress
