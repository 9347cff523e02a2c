package main

import (
	"context"
	"fmt"

	"github.com/urfave/cli/v3"
)

// versionCommand does as --version does.
func (p *program) versionCommand() *cli.Command {
	return &cli.Command{
		Name:               "version",
		Usage:              "show the version",
		CustomHelpTemplate: rootHelp,
		HideHelpCommand:    true,
		OnUsageError:       explainUsage,
		ArgValidator:       noArguments,
		Action: func(_ context.Context, cmd *cli.Command) error {
			_, err := fmt.Fprintln(p.stdout, "phxworker version", cmd.Root().Version)
			return err
		},
	}
}
