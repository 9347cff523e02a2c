package main

import (
	"context"
	"errors"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker/mockserver/conform/worker"
)

func workerCommand(out output) *cli.Command {
	return &cli.Command{
		Name:  "worker",
		Usage: "starts a worker once per case, against a mock of Lightning",
		UsageText: `phxconform worker [options] -- COMMAND [ARGUMENTS]

The command is started with WORKER_LIGHTNING_SERVICE_URL, WORKER_SECRET and the other variables of
OpenFn's ws-worker. In its arguments {url}, {secret}, {capacity} and {workloops} are filled in.`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "adaptor", Usage: "the `ADAPTOR` of all jobs, with its version: one that is installed, for a worker that asks npm about the latest", Value: "@openfn/language-common@latest"},
		}, outputFlags(words{
			cases: "W4.2, W4", patience: "on a slow machine, or for a worker that installs things first",
		})...),
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			o, err := options(cmd)
			if err != nil {
				return err
			}
			target := worker.Target{Command: cmd.Args().Slice(), Adaptor: cmd.String("adaptor")}
			if cmd.Bool("list") {
				return out.list(worker.Cases(target), o.Cases)
			}
			if len(target.Command) == 0 {
				return usageError{errors.New("there is no command: phxconform worker [options] -- COMMAND [ARGUMENTS]")}
			}
			o.Subject = strings.Join(target.Command, " ")
			return out.try(ctx, cmd, worker.Cases(target), o)
		},
	}
}
