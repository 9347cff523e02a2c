package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"
)

// helpCommand does as --help after a command does.
func (p *program) helpCommand() *cli.Command {
	return &cli.Command{
		Name:               "help",
		Usage:              "tell more about a command",
		CustomHelpTemplate: rootHelp,
		HideHelpCommand:    true,
		OnUsageError:       explainUsage,
		Action: func(_ context.Context, cmd *cli.Command) error {
			about, text := cmd.Root(), rootHelp
			for _, name := range cmd.Args().Slice() {
				if about = about.Command(name); about == nil {
					return &usageError{fmt.Sprintf("there is no command %q; see phxworker --help", name)}
				}
				text = about.CustomHelpTemplate
			}
			_, err := fmt.Fprint(p.stdout, text)
			return err
		},
	}
}

// The help texts are templates of urfave/cli without anything to fill in.

const rootHelp = `phxworker takes runs from a server's queue over a Phoenix channel, and executes
them. It speaks the worker protocol of OpenFn Lightning.

Usage:
  phxworker [start] [options]   claim runs and execute them
  phxworker config [options]    show the settings and where each comes from, and
                                check them
  phxworker run FILE            execute a workflow from a file, with no server
  phxworker status [--json]     show what a worker does, and whether it is ready
  phxworker pause|resume [GROUP]
                                claim no more for a while, in one group or all
  phxworker slots GROUPS        change how many runs slot groups may hold
  phxworker cancel RUN          stop a run
  phxworker drain [--wait]      stop a worker in good order
  phxworker demo [--keep]       show it, with a mock server in the same process
  phxworker adaptors COMMAND    install adaptors beforehand, or list them
  phxworker spool [--resend]    list or send what could not be reported of runs
  phxworker help COMMAND        tell more about a command
  phxworker version

"phxworker help start" lists the options.
` + exitHelp

const startHelp = `phxworker start claims runs from a server and executes them, until SIGINT or
SIGTERM: then it claims no more, lets its runs finish, and leaves. A second
signal cancels the runs and reports them so; a third ends the process at once.
Signals within a second are one, for some tools send each twice.

Usage: phxworker [start] [options]

A flag beats its environment variable, which stands in brackets, and that beats
the config file, where options have the names of their flags without dashes. An
empty value counts as none. Options that are on or off take no value and are
switched off with --no-FLAG; in a variable or a file they take true, false, yes,
no, on, off, 1 or 0.

`

const configHelp = `phxworker config shows what the options come to and where each was set, and
then checks them as "phxworker start" does: what is doubtful is told on standard
error, and so is what cannot work. It connects to nothing; an engine that is a
command is started, and must answer.

Usage: phxworker config [options]

The options are those of "phxworker start". What is shown is a config file: keep
it with "phxworker config > phxworker.yaml" and give it to --config. The values of
secrets are not in it, only where they were set; the arguments of an engine are.
Defaults stand in comments.

Exit codes: 0 for settings to start with, 1 for a failure that may pass, such as
an engine that does not answer, 2 for options, variables or files that it cannot
work with.
`

const demoHelp = `phxworker demo starts a mock server and a worker in this process, puts the plans
of the examples folder into its queues, and shows what becomes of them: here, and on
a page whose address it prints.

Usage: phxworker demo [options]

Options:
  --keep
      stay up at the end, with addresses to try things at, until a signal
  --log LEVEL
      what of the worker's log to show: debug, info, warn, error or none;
      default warn

Exit codes: 0 when every run ended as its example says, 1 when one did not, 2 for
options that it cannot work with.
`

const spoolHelp = `phxworker spool lists what a worker with --spool could not report of its runs;
with --resend, it reports it now and removes what the server took. A server takes
a run's events while the run's token is good, a little longer than the run was
allowed to take.

Usage: phxworker spool --spool DIR [--resend] [options]

Options are those of "phxworker start" that say how to connect, which only --resend
does: --lightning, --secret, --ca-file.

Exit codes: 0 when it is done, 1 when something could not be read or was not taken,
2 for options, variables or files that it cannot work with.
`

const exitHelp = `
Exit codes: 0 after a stop in good order, 1 for a failure that may pass, such as
a port that is taken or an engine that does not answer, 2 for options, variables
or files that it cannot work with, 3 when runs were cut short by a second signal
or after --grace, 4 when a third signal ended it at once.
`
