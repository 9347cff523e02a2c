package main

// The help texts are templates of urfave/cli without anything to fill in.

const rootHelp = `phxworker takes runs from a server's queue over a Phoenix channel, and executes
them. It speaks the worker protocol of OpenFn Lightning.

Usage:
  phxworker [start] [options]   claim runs and execute them
  phxworker demo [--keep]       show it, with a mock server in the same process
  phxworker spool [--resend]    list or send what could not be reported of runs
  phxworker --version

"phxworker start --help" lists the options.
` + exitHelp

const startHelp = `phxworker start claims runs from a server and executes them, until SIGINT or
SIGTERM: then it claims no more, lets its runs finish, and leaves. A second
signal cancels the runs and reports them so; a third ends the process at once.

Usage: phxworker [start] [options]

A flag beats its environment variable, which stands in brackets. An empty value
counts as none.

`

const demoHelp = `phxworker demo starts a mock server and a worker in this process, puts the plans
of the examples folder into its queues, and shows what becomes of them.

Usage: phxworker demo [options]

Options:
  --keep
      stay up at the end, with addresses to try things at, until a signal
  --log LEVEL
      what of the worker's log to show: debug, info, warn, error or none;
      default warn
` + exitHelp

const spoolHelp = `phxworker spool lists what a worker with --spool could not report of its runs;
with --resend, it reports it now and removes what the server took. A server takes
a run's events while the run's token is good, a little longer than the run was
allowed to take.

Usage: phxworker spool --spool DIR [--resend] [options]

Options are those of "phxworker start" that say how to connect: --lightning,
--secret, --ca-file.
` + exitHelp

const exitHelp = `
Exit codes: 0 after a stop in good order, 1 for a failure at run time, 2 for
options, variables or files that it cannot work with, 3 when runs were cancelled
by a second signal or after --grace, 4 when a third signal ended it at once.
`
