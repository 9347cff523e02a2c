// Package slots divides a worker's capacity into groups and counts what each
// group has in use.
//
// A group is a list of queues and a number of slots, written "manual>*:4":
// claim for the queue manual first, then for any other (*), and hold at most
// four runs at once. [Parse] reads a worker's groups from one line, [Check]
// those that were written by hand, and
// [NewJoinPayload] tells the server about them.
//
// A [Pool] counts the slots of one group. A [Slot] is the tie between a run and
// its group: it is reserved before a run is asked for, filled with the run that
// came back, and released when that run is over ([Slot.Return] is Release for one that
// went back to its queue).
//
//	Reserve       Fill          Release
//	open ──▶ claimed ──▶ running ──▶ open
//	             └──────Release──────▶
//
// # What holds at any moment
//
// Open + Claimed + Running is the pool's size, and Claimed + Running exceeds it
// only after a [Pool.Resize] to less than was in use; until that many slots are
// released, nothing can be reserved. A slot belongs to its pool for life: a run
// that holds it counts in that group and in no other. Whoever holds the slot is
// the only one who can free it, and only once: a second Release changes nothing
// and says so. Nothing frees a slot that was dropped: it stays in [Counts], where
// a test can see it.
//
// # Who is woken
//
// [Pool.Freed] carries a signal when a run of this group ended, or when the pool
// grew: there is room that was not there before. Signals coalesce into one.
// Freeing a slot that never held a run is not signalled: only the claim
// loop of the group reserves slots, and it knows what it freed. If it heard
// of that too, every empty reply would make it claim again at once.
//
// # Concurrency
//
// Every method may be called from any goroutine and none blocks. The package
// starts no goroutine, does no I/O and keeps no time. It makes no promise about
// fairness between goroutines that reserve from the same pool: it expects one.
package slots
