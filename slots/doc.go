// Package slots divides a worker's capacity into groups and counts what each group has in use.
//
// A group is a list of queues and a number of slots. "manual>*:4" means: claim for the queue manual
// first, then for any other (*), and hold four runs at most. [Parse] reads groups from one line;
// [Check] checks groups that were written by hand.
//
// A [Pool] counts the slots of one group. A [Slot] ties a run to its group. The claim loop reserves it
// before it claims a run, fills it with the run that came, and frees it if none came. Whoever executes
// the run frees it when the run is over.
//
//	Reserve       Fill          Free
//	open ──▶ claimed ──▶ running ──▶ open
//	             └───────Free────────▶
//
// # What holds at any moment
//
// Open + Claimed + Running is the pool's size. Only after a [Pool.Resize] to less than was in use,
// Claimed + Running is more than that. A slot belongs to its pool for life. Its holder frees it, once.
// Nothing frees a slot that its holder has forgotten: it stays in [Counts], where a test can see it.
//
// # Who is woken
//
// [Pool.Freed] receives a signal when a run of this group has ended, or when the pool has grown. A slot
// that is freed without ever holding a run gives no signal: otherwise every empty reply would make the
// claim loop claim again at once.
//
// # Concurrency
//
// Every method may be called from any goroutine, and none blocks. The package starts no goroutine, does
// no I/O and keeps no time. Only one goroutine should reserve from a pool.
package slots
