// Package suite runs conformance cases and says what came of them. It knows neither workers nor
// servers: package worker has the cases for the one, package server those for the other.
//
// A [Case] has an id, a level, a sentence of why, and a source. Its Run is given a [T], with which it
// fails, is skipped, and notes the frames that it saw. [Run] executes the cases of a selection side by
// side and returns a [Report], which writes itself as text, JSON, JUnit and HTML.
//
// A result says no more than is known. A case has passed, has failed, or was not tried, with the
// reason: a must that was not tried is no pass, and [Report.Shown] is false then. A case of another version
// of Lightning is not selected and has no result.
//
// Concurrency: each case runs in a goroutine of its own, which has ended when its result is there. A T
// may be used by the goroutines of its case. Time is taken from package time alone, so that all of it
// works in a testing/synctest bubble.
package suite
