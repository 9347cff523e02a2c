// Package phoenix is the server side of Phoenix Channels, serializer 2.0.0, over
// a websocket: enough of it that a client cannot tell it from a real Phoenix
// endpoint. What it sends is pinned by sessions recorded from Phoenix 1.7.24
// on cowboy (see testdata), down to the order of the frames.
//
// An [Endpoint] accepts sockets and knows nothing of what is served; an [App]
// decides who may connect and which topics can be joined, and a [Channel]
// answers the pushes of one joined topic.
//
// Order: the messages of one socket are handled one after the other, in the
// order they came, and what is sent to it leaves in the order it was sent. So
// the events of one topic are handled in order too, as those of a Phoenix
// channel process are. Unlike in Phoenix, a slow handler holds up the other
// topics of its socket: handlers must not block. A push whose answer takes time is
// answered later, by any goroutine; until then it holds up nothing.
//
// Back-pressure: what a client does not read is kept for it, up to 64 MiB;
// then its connection is dropped. A write may take ten seconds.
//
// Faults: what [Faults] says goes wrong, at the one place where a message is
// handled, and at the upgrade. A reply that a fault delays holds up what follows
// on its topic, and nothing else; the writer of the socket sends it when it is due.
//
// Not here: serializer 1.0.0, long polling, presence. A client that names no vsn is refused; Phoenix takes it for
// one of serializer 1.0.0.
package phoenix
