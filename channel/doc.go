// Package channel is a client of Phoenix Channels (serializer version 2.0.0),
// for any Phoenix server.
//
// A [Socket] is one logical connection to a server. It dials in the background, and again whenever the
// connection is lost, until it is closed. A [Topic] is one joined channel. It outlives its connection:
// on each new one it joins again, with its payload marshalled anew.
//
// # Pushes
//
// [Topic.Push] sends one event and waits for the reply. It never waits for a connection, and it keeps
// nothing to send later. The caller decides what to do while offline: [Topic.PushWhenReady] waits until
// the topic is joined and then pushes, and [Topic.Ready] only waits. Each error of a push is of exactly
// one of three kinds:
//
//   - not sent ([ErrNotSent]): the server has not seen the push. It is safe to send it again, and useful
//     unless the payload is at fault ([*TooLargeError], [ErrPayload]).
//   - outcome unknown ([ErrOutcomeUnknown]): the push was written, and no reply could be read. The
//     connection or the join was lost, the context ended, or the reply was too large
//     ([*AnswerTooLargeError]). The server may or may not have acted on the push.
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
// Pushes made one after the other reach the server in that order. Concurrent pushes reach it in some
// order, each one whole. The messages of a topic are delivered in wire order. There is no order between
// topics, nor between the reply to a push and the messages of its topic.
//
// # Back-pressure
//
// A push blocks while others are being written, until its context ends at most. Each write has a
// deadline, which ends the connection. The messages of a topic are buffered up to [Config.PushBuffer],
// those of all topics up to 16 MiB. When there is no room, the newest message is dropped, so that one
// slow reader cannot hold up the replies to others. The next message that is delivered says how many
// were dropped.
//
// # Loss
//
// A connection is lost
//
//   - when it breaks;
//   - when the server closes it, with any code: Phoenix sends 1000 to a client that it kicked;
//   - when a heartbeat is not answered before the next one is due, and no message is coming in;
//   - when a write exceeds its deadline;
//   - when the server sends a message that is not of Phoenix, or that does not end.
//
// The first new dial is made at once if the connection was steady. Further dials wait longer and
// longer, with full jitter. A topic whose channel has crashed on the server (phx_error) is joined again
// in the same way.
//
// When the server refuses the parameters of the socket, as for a bad token (401 or 403 at the upgrade),
// a [Socket.Join] that waits for its first join ends with that error. The socket and the topics that
// were joined go on trying, since [Config.Params] may have a better token by then. With
// [Config.RetryRefused] such a Join waits as well.
//
// A topic ends for good when it is left, when the server closes it (phx_close) or refuses a join, and
// with its socket. A join that is answered "join crashed", or not in time, is tried again. A topic that
// is kept ([Socket.Keep]) ends only when it is left or the socket is closed.
//
// A message over [Config.ReadLimit] is read and thrown away as it comes, and harms nothing else. The
// push that it answers ends at once with an [*AnswerTooLargeError]; the topic that it is for counts it
// as missed. A message that is many times as large ends the connection.
//
// Messages that the server sent between two joins are lost, for Phoenix keeps none. A new [Join] from
// [Topic.Ready] shows that there may be such messages.
//
// # Concurrency
//
// All methods of all types may be called concurrently. The two callbacks, [Config.Params] and the
// MarshalJSON of a join payload, run on goroutines of the socket and must not call [Socket.Close].
package channel
