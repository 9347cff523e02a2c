package main

const statusHelp = `phxworker status shows what a worker does: whether it claims, or why not; its slot
groups; the runs under way and what each does now; how the last ones ended.

Usage: phxworker status [--json] [options]

The exit code is 0 when the worker is ready, 1 when it is not or does not answer.

Options:
  --json
      all of it, as GET /status has it
`

const pauseHelp = `phxworker pause keeps a worker from claiming; the runs under way go on. phxworker
resume ends that; a worker with --no-loop claims by itself from then on. Both are
for the slot group that is named, such as "manual>*", or for all.

Usage: phxworker pause [GROUP] [options]
       phxworker resume [GROUP] [options]

Options:
`

const slotsHelp = `phxworker slots changes how many runs slot groups may hold at once, until the
worker ends. The groups are written as for --workloops. With fewer slots than
runs, the runs go on.

Usage: phxworker slots GROUPS [options]

  phxworker slots "manual>*:6"

Options:
`

const cancelHelp = `phxworker cancel stops a run, which is reported as cancelled.

Usage: phxworker cancel RUN [options]

Options:
`

const drainHelp = `phxworker drain stops a worker as SIGTERM does: it claims no more, lets its runs
finish, and ends.

Usage: phxworker drain [--wait] [options]

Options:
  --wait
      return when the worker has ended
`

const controlHelp = `  --url URL [WORKER_HTTP_URL]
      where the worker is; default http://127.0.0.1:2222, or as WORKER_HOST and
      WORKER_PORT say
  --http-token-file FILE [WORKER_HTTP_TOKEN_FILE]
  --http-token TOKEN [WORKER_HTTP_TOKEN]
      what the worker was given as one of these; not needed for one on this
      machine that was given none: it has made a token of its own, which its
      user's commands find by themselves, as root's do that of the systemd
      unit; for another user's worker, begin the line with sudo -u USER

Exit codes: 0 when it is done, 1 when the worker does not answer or refuses, 2
for a command line that says nothing clear.
`
