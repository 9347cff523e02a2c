// Package extended is what the mock server's extended mode knows beyond Lightning's protocol,
// for those who ask: the extensions of docs/extensions.
//
// A [Service] is a [lightning.Service] around which it wraps the channels of both topics, so that
// a client which offers no extension meets nothing of it. A run has one owner, from a claim
// until the run ends or is taken from it; each owner has a token of its own, and what comes with
// another one is refused. The order of what happens is that in which it takes the lock of the
// [lightning.Service]: an event of an owner either counts before the run is taken from it, or is
// refused.
package extended
