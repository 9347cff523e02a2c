// Package slots divides a worker's capacity into groups and counts what each
// group has in use.
//
// A group is a list of queues and a number of slots, written "manual>*:4":
// claim for the queue manual first, then for any other (*), and hold at most
// four runs at once. [Parse] reads a worker's groups from one line, [Check]
// those that were written by hand.
//
// A [Pool] counts the slots of one group. A [Slot] is the tie between a run and
// its group: it is reserved before a run is asked for, filled with the run that
// came back, and freed when that run is over.
//
//	Reserve       Fill          Free
//	open ──▶ claimed ──▶ running ──▶ open
//	             └───────Free────────▶
//
// # What holds at any moment
//
// Open + Claimed + Running is the pool's size, and Claimed + Running exceeds it
// only after a [Pool.Resize] to less than was in use. A slot belongs to its pool for
// life, and whoever holds it is the only one who can free it, and only once. Nothing
// frees a slot that was dropped: it stays in [Counts], where a test can see it.
//
// # Who is woken
//
// [Pool.Freed] carries a signal when a run of this group ended, or when the pool
// grew: there is room that was not there before. Freeing a slot that never held a
// run is not signalled: if the claim loop heard of that, every empty reply would make
// it claim again at once.
//
// # Concurrency
//
// Every method may be called from any goroutine and none blocks. The package
// starts no goroutine, does no I/O and keeps no time. It expects one goroutine to
// reserve from a pool.
package slots
