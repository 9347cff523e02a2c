// Package channel is a client of Phoenix Channels (serializer version 2.0.0),
// for any Phoenix server.
//
// A [Socket] is one logical connection to a server. It dials in the background
// and dials again whenever the connection is gone, for whatever reason, until
// it is closed. A [Topic] is one joined channel. It outlives the connection it
// was joined on: on each new one it joins again, with its payload marshalled
// anew.
//
// # Pushes
//
// [Topic.Push] sends one event and waits for the reply. It never waits for a
// connection, and nothing is kept to be sent later: what to do while
// offline is the caller's decision: [Topic.PushWhenReady] waits for the topic to be
// joined and then pushes, and [Topic.Ready] waits alone. A push has three kinds of failure,
// and each error is of exactly one:
//
//   - not sent ([ErrNotSent]): the server has not seen the push. Sending it
//     again is safe, and of use unless the payload is at fault
//     ([*TooLargeError], [ErrPayload]).
//   - outcome unknown ([ErrOutcomeUnknown]): the push was written, and then the
//     connection or the join was lost, or the context ended, before the reply
//     came, or the reply was too large to be read ([*AnswerTooLargeError]). The
//     server may have acted on it or not.
//   - refused ([*RefusedError]): the server answered with status error.
//
// # OpenFn Lightning
//
// Lightning takes workers at wss://HOST/worker, with these parameters:
//
//   - token: a JWT, HS256 over the bytes of WORKER_SECRET, with the claims iss
//     ("urn:openfn:worker"), iat (a time in seconds) and worker_id (any string that
//     names the worker). All three must be there. nbf is honoured; exp is not looked at.
//   - api_version: the version of the worker's protocol, such as "1.2".
//   - worker_version: shown to people.
//
// The token only opens the socket. The topic of a run, run:ID, is joined with {"token": …},
// the token that came with the run in the reply to a claim. The example of [Config] makes a
// worker's token; a mock server makes one for tests (mockserver.Server.WorkerToken).
//
// # Order
//
// Pushes made one after the other reach the server in that order. Pushes made
// concurrently reach it in some order, and each is whole. What the server
// pushes on a topic is delivered in wire order. There is no order between
// topics, nor between the reply to a push and the messages of the topic.
//
// # Back-pressure
//
// A push blocks while others are being written, at most until its context ends,
// and each write has a deadline that ends the connection. The messages of a
// topic are buffered up to [Config.PushBuffer], those of all topics up to 16 MiB.
// When there is no room the newest message is dropped, so that one slow reader cannot hold up the
// replies of others; the next message delivered says how many were dropped
// before it.
//
// # Loss
//
// A connection ends when it breaks, when the server closes it with any code
// (1000 included, which Phoenix sends to a client it kicked), when a heartbeat is not answered
// before the next is due and no message is coming in, when a write exceeds its deadline, and
// when the server sends what is not a Phoenix message, or has no end. The first
// new attempt is made at once if the connection had been steady; further ones
// wait longer and longer, with full jitter. A topic whose channel process
// crashed (phx_error) is joined again in the same manner.
//
// When the server refuses the parameters of the socket, as for a bad token (401 or 403 at the
// upgrade), a [Socket.Join] that waits for its first join ends with that error. The socket
// itself, and the topics that were joined, go on trying, since [Config.Params] may have a
// better token by then. With [Config.RetryRefused] such a Join waits as well.
//
// A topic ends for good when it is left, when the server closes it (phx_close),
// when the server refuses a join, and with its socket. A join answered "join
// crashed", and one not answered in time, is tried again. One that is kept ([Socket.Keep]) ends only when it is
// left or the socket is closed.
//
// A message over [Config.ReadLimit] is read and thrown away as it comes, and harms
// nothing else: the push that it answers ends at once with an [*AnswerTooLargeError], and a
// topic that it was for counts it as missed. One that is many times as large ends the
// connection.
//
// What happened between two joins is lost: Phoenix keeps no messages for a
// client that is away. The epoch that [Topic.Ready] returns tells that this
// may have happened.
//
// # Concurrency
//
// All methods of all types may be called concurrently. The two callbacks,
// [Config.Params] and the MarshalJSON of a join payload, run on goroutines of
// the socket and must not call [Socket.Close].
package channel
