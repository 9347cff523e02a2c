// Package command executes runs in processes of another program, which may be
// written in any language. The two talk in lines of JSON over the standard input
// and output of the process; docs/engine-protocol.md has every message.
//
// A [Pool] keeps the processes. [Pool.Execute] gives one of them a run and
// reports what it says. An [Engine] is a pool that sends the run as the server
// gave it; engines with a shape of their own use the pool.
//
// # Order and concurrency
//
// A process executes one run at a time, and up to [Config.Runs] of one owner one
// after the other; a process that has had none is for whoever comes.
// What it says is reported in the order in which it said it, and all that it said
// before it died is reported before its death is. Pools and their methods may be
// used concurrently; besides those kept ready, there are no more processes
// than there were runs at one time.
//
// # Back-pressure
//
// While the run's outbox is full, the process's output is not read: it is bounded
// by the pipe. Lines that are no messages are logged up to 1 MiB a run.
//
// # Ends
//
// Each process leads a process group, which is killed as a whole: when a run's
// context has ended and the grace is over, when it is over its memory, when what
// the process says makes no sense, and after the last run of the process. On Linux,
// descendants that have left the group are looked for and killed as well. A run
// never takes its process's death for its own success: without an "end" it
// is a crash.
//
// # What is not promised
//
// Without [Config.Wrap], a process sees what the user of the worker may see: files, network,
// other processes of that user. A descendant is overlooked if it leaves the process
// group, the environment and the working folder behind; on other systems than
// Linux, the group is enough, and memory is not watched. If the worker itself is
// killed, on Linux its processes are killed as well, elsewhere they see the end
// of their input; their folders stay until another pool is made in the same place.
package command
