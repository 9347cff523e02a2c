// Package server has the conformance cases for servers that workers of Lightning talk to.
//
// It talks to them as workers do, by frames that it makes itself, also wrong ones: it shares no code with
// the worker's client. On the server's other side somebody has to queue runs, and to cancel and notify them: a [Target]
// says how. What it sees is what a worker sees; what the server keeps for itself it cannot know.
//
// A case is tried on a server of its own ([Fresh], [Mock]), or all are on one ([Shared]). Extensions are tried
// when the server announces them, on terms of at most 30 s.
package server
