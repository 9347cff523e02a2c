package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker/mockserver"
)

// extend adds what the extended mode is about.
func extend(cfg *mockserver.Config, cmd *cli.Command) error {
	var err error
	cfg.Mode, err = mockserver.ParseMode(cmd.String("mode"))
	if err != nil {
		return fmt.Errorf("--mode: %w", err)
	}
	if cmd.IsSet("max-queued") {
		cfg.MaxQueued = orNone(cmd.Int("max-queued"))
	}
	if cfg.Mode != mockserver.Extended {
		for _, name := range []string{"extensions", "lease", "claim-ack", "status-interval", "status-timeout", "max-wait", "affinity-wait"} {
			if cmd.IsSet(name) {
				return fmt.Errorf("--%s needs --mode extended", name)
			}
		}
		return nil
	}
	if cmd.IsSet("extensions") {
		cfg.Extensions = []string{}
		if names := cmd.String("extensions"); names != "" {
			cfg.Extensions = strings.Split(names, ",")
		}
		for _, name := range cfg.Extensions {
			if known := mockserver.ExtensionNames(); !slices.Contains(known, name) {
				return fmt.Errorf("--extensions: there is no %q; there are %s", name, strings.Join(known, ", "))
			}
		}
	}
	for _, name := range []string{"lease", "claim-ack", "status-interval", "status-timeout", "max-wait", "affinity-wait"} {
		if cmd.Duration(name) <= 0 {
			return fmt.Errorf("--%s must be more than nothing", name)
		}
	}
	cfg.Lease, cfg.ClaimAck = cmd.Duration("lease"), cmd.Duration("claim-ack")
	cfg.StatusInterval, cfg.StatusTimeout = cmd.Duration("status-interval"), cmd.Duration("status-timeout")
	cfg.MaxWait, cfg.AffinityWait = cmd.Duration("max-wait"), cmd.Duration("affinity-wait")
	return nil
}
