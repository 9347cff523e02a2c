// Package fault holds what is to go wrong on a mock server: rules, each of which
// names messages and what happens to them, and a record of what did happen. It
// knows nothing of sockets or runs: who serves the messages asks a [Set]
// about each of them, and does what the rule that it gets says.
//
//	{"event": "run:complete", "run": "run-1", "action": "drop", "when": "after"}
//
// applies the run:complete of run-1 and drops the connection before the reply.
//
// Order: rules are tried in the order in which they were added, and the first
// that strikes a message is the only one; those behind it do not count it.
//
// Repeatable: chance is drawn from a generator of its own for each rule and
// topic, made of the set's seed, the rule's number and the topic's name. So the
// n-th message that a rule with a probability sees on a topic fares the
// same in every run of a test with the same seed and the same rules, whatever
// happens on other topics meanwhile. Not repeatable is what depends on the order in
// which messages of different topics arrive: which of them a Skip or Count that
// spans several topics meets, and the draws of the topics that sockets share in
// name (worker:queue and heartbeats, when there are several workers). Nor is it
// anything if the names of the topics are random.
//
// Concurrency: all methods of a Set may be called at once. One without rules
// costs an atomic load a message.
//
// Memory: rules are kept until they are removed, those that are used up among
// them, and with each rule that leaves something to chance a generator for each
// topic it saw. Of the record the last 10,000 entries are kept.
package fault
