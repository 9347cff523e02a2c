package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/server"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

func serverCommand(out output) *cli.Command {
	flags := []cli.Flag{
		&cli.StringFlag{Name: "url", Usage: "the `URL` that workers connect to, such as wss://lightning.example.org/worker"},
		&cli.StringFlag{Name: "secret", Usage: "the `SECRET` that they sign their tokens with", Sources: cli.EnvVars("WORKER_SECRET")},
		&cli.StringFlag{Name: "public-key", Usage: "the `KEY` that the tokens of runs are verified with: PEM in base64; without it they are not", Sources: cli.EnvVars("WORKER_LIGHTNING_PUBLIC_KEY")},
		&cli.StringFlag{Name: "enqueue", Usage: "a shell `COMMAND` that queues the plan it reads, and prints the run's id"},
		&cli.StringFlag{Name: "control", Usage: "a shell `COMMAND` that is given cancel ID, notify ID or drain as arguments, with an object to read"},
		&cli.DurationFlag{Name: "janitor", Usage: "how often the server looks for runs that are overdue"},
		&cli.StringFlag{Name: "mock", Usage: "try this project's mock server, in the `MODE` lightning or extended, instead of another one"},
	}
	return &cli.Command{
		Name:  "server",
		Usage: "tries a server for workers of Lightning",
		UsageText: `phxconform server [options] --url URL --secret SECRET --enqueue COMMAND [--control COMMAND]
phxconform server [options] --mock MODE

The command of --enqueue reads a plan. Beside Lightning's fields it may have queue, priority (normal or
immediate), key, dataclip (the run's input) and credentials (an object of bodies by id). The command prints
the id of the run that it has queued, alone or as {"id":…}. That of --control reads {"message":…} for a
cancellation and the object itself for a notification. One that cannot do what is asked for exits with 3:
then the case is not tried. One that takes more than 30 s is killed, and has failed.

The server's queue must be for the kit alone: whatever is in it is completed.`,
		Flags: append(flags, outputFlags(words{
			cases: "S4.2, S4", parallel: " with --mock; those of --url share its queue, and go one by one",
			patience: "on a slow machine, or for a slow server",
		})...),
		OnUsageError: onUsageError,
		Action: func(ctx context.Context, cmd *cli.Command) error {
			o, err := options(cmd)
			if err != nil {
				return err
			}
			if cmd.Args().Present() {
				return usageError{fmt.Errorf("unexpected argument %q (see phxconform server --help)", cmd.Args().First())}
			}
			if cmd.Bool("list") {
				return out.list(server.Cases(server.Servers{}), o.Cases)
			}
			servers, subject, err := serversOf(cmd)
			if err != nil {
				return usageError{err}
			}
			o.Subject = subject
			if servers.Shared() {
				o.Parallel = 1
			}
			cases := server.Cases(servers)
			if err := reach(ctx, cmd.String("url")); err != nil {
				for i := range cases {
					cases[i].Run = func(t *suite.T) { t.Skipf("nothing listens at --url: %v", err) }
				}
			}
			return out.try(ctx, cmd, cases, o)
		},
	}
}

// reach looks once whether anything listens at the URL; none is the mock server's. Each case would find it out by
// itself otherwise, and be red, though none was tried.
func reach(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	address, err := url.Parse(text)
	if err != nil {
		return err
	}
	port := address.Port()
	if port == "" {
		port = map[string]string{"ws": "80", "wss": "443"}[address.Scheme]
	}
	conn, err := (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", net.JoinHostPort(address.Hostname(), port))
	if err != nil {
		return err
	}
	return conn.Close()
}

// serversOf returns the servers that the flags name, and what to call them.
func serversOf(cmd *cli.Command) (s server.Servers, subject string, err error) {
	if cmd.IsSet("mock") {
		for _, other := range []string{"url", "enqueue", "control"} {
			if cmd.IsSet(other) {
				return s, "", fmt.Errorf("--mock and --%s are two different servers", other)
			}
		}
		mode, err := mockserver.ParseMode(cmd.String("mock"))
		if err != nil {
			return s, "", fmt.Errorf("--mock: %w", err)
		}
		return server.Mock(mode), "the mock server, " + string(mode), nil
	}
	address, err := url.Parse(cmd.String("url"))
	switch {
	case cmd.String("url") == "":
		return s, "", errors.New("--url is missing, or --mock")
	case err != nil || address.Scheme != "ws" && address.Scheme != "wss" || address.Host == "":
		return s, "", fmt.Errorf("--url %q is none of a websocket, such as wss://lightning.example.org/worker", cmd.String("url"))
	case cmd.String("secret") == "":
		return s, "", errors.New("--secret is missing, or WORKER_SECRET")
	case cmd.String("enqueue") == "":
		return s, "", errors.New("--enqueue is missing: nothing can be tried without runs")
	}
	if key := cmd.String("public-key"); key != "" {
		if _, err := server.ParsePublicKey(key); err != nil {
			return s, "", fmt.Errorf("--public-key (or WORKER_LIGHTNING_PUBLIC_KEY) is to be PEM in base64: %w", err)
		}
	}
	target := server.Target{
		URL: cmd.String("url"), Secret: cmd.String("secret"), PublicKey: cmd.String("public-key"),
		Janitor: cmd.Duration("janitor"), Enqueue: script(cmd.String("enqueue")).enqueue,
	}
	if text := cmd.String("control"); text != "" {
		control := script(text)
		target.Cancel, target.Notify, target.Drain = control.cancel, control.notify, control.drain
	}
	return server.Shared(target), address.Redacted(), nil
}
