package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/runner/delivery"
)

func (p *program) spoolCommand() *cli.Command {
	return &cli.Command{
		Name:               "spool",
		Usage:              "list and resend what could not be reported",
		Flags:              append(options.Flags(), &cli.BoolFlag{Name: "resend"}),
		CustomHelpTemplate: spoolHelp,
		HideHelpCommand:    true,
		OnUsageError:       explainUsage,
		ArgValidator:       noArguments,
		Action:             p.spool,
	}
}

func (p *program) spool(ctx context.Context, cmd *cli.Command) error {
	values, err := options.Collect(cmd, p.getenv)
	if err != nil {
		return err
	}
	dir, err := values.Spool()
	switch {
	case err != nil:
		return err
	case dir == "":
		return &usageError{"no spool folder: set --spool or WORKER_SPOOL to the folder that the worker was given"}
	case !cmd.Bool("resend"):
		return p.listSpool(dir)
	}
	settings, err := values.Settings()
	if err != nil {
		return err
	}
	results, unreadable := phxworker.ResendSpool(ctx, settings.Worker)
	if results == nil && unreadable != nil {
		return unreadable
	}
	failed := 0
	for _, r := range results {
		if r.Err != nil {
			failed++
			fmt.Fprintf(p.stdout, "%s: not taken, kept in %s: %s\n", printable(r.RunID), r.Path, printable(strings.ReplaceAll(r.Err.Error(), "\n", "; ")))
			continue
		}
		fmt.Fprintf(p.stdout, "%s: reported\n", printable(r.RunID))
	}
	fmt.Fprintf(p.stdout, "%d reported, %d kept\n", len(results)-failed, failed)
	if failed > 0 {
		return errors.Join(errors.New("some runs could not be reported; the lines above say why"), unreadable)
	}
	return unreadable
}

func (p *program) listSpool(dir string) error {
	var unreadable []error
	listed := 0
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	for run, err := range delivery.EachSpooled(dir) {
		if err != nil {
			unreadable = append(unreadable, err)
			continue
		}
		if listed++; listed == 1 {
			fmt.Fprintln(table, "run\tgiven up at\tundelivered\tcause")
		}
		// Both are the server's words.
		fmt.Fprintf(table, "%s\t%s\t%d of %d events\t%s\n", printable(run.RunID), run.At.Local().Format(time.DateTime), len(run.Events), run.Delivered+len(run.Events), printable(run.Cause))
	}
	if listed == 0 && unreadable == nil {
		fmt.Fprintln(p.stdout, "nothing is spooled in", dir)
	}
	return errors.Join(append(unreadable, table.Flush())...)
}
