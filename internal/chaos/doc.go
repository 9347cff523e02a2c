// Package chaos proves that the worker loses no run, by injected faults. It has
// tests only.
//
// A schedule is made from a seed: workers with slot groups, runs with steps and
// log lines, and the weather they go through, which is what the mock server does
// wrong and when. It passes in fake time, in a testing/synctest bubble, with the
// real client and the real server. Afterwards the books are compared: what the
// server recorded, what each run was to report, what the workers said that they
// had to give up.
//
// A seed repeats its workers, runs and weather. What the scheduler of Go decides, such as which of
// two runs is claimed first, it does not repeat; so a seed that failed may have
// to be run a few times (-count) to fail again.
package chaos
