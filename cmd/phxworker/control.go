package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strconv"
	"strings"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/cmd/phxworker/token"
	"github.com/phxworker/phxworker/slots"
)

// controlCommands ask a worker that runs, over its HTTP.
func (p *program) controlCommands() []*cli.Command {
	return []*cli.Command{
		p.controlCommand("status", "show what a worker does", statusHelp, noArguments, p.status, &cli.BoolFlag{Name: "json"}),
		p.controlCommand("pause", "claim no more, for a while", pauseHelp, atMostAGroup, p.pause),
		p.controlCommand("resume", "claim again", pauseHelp, atMostAGroup, p.resume),
		p.controlCommand("slots", "change how many runs a group may hold", slotsHelp, oneArgument("the groups", `slots "manual>*:6"`), p.slots),
		p.controlCommand("cancel", "stop a run", cancelHelp, oneArgument("one run id", "cancel RUN"), p.cancel),
		p.controlCommand("drain", "stop a worker in good order", drainHelp, noArguments, p.drain, &cli.BoolFlag{Name: "wait"}),
	}
}

func (p *program) controlCommand(name, usage, help string, arguments cli.ArgValidatorFunc, action cli.ActionFunc, flags ...cli.Flag) *cli.Command {
	return &cli.Command{
		Name:               name,
		Usage:              usage,
		Flags:              append(flags, &cli.StringFlag{Name: "url"}, &cli.StringFlag{Name: "http-token"}, &cli.StringFlag{Name: "http-token-file"}),
		CustomHelpTemplate: help + controlHelp,
		HideHelpCommand:    true,
		OnUsageError:       explainUsage,
		ArgValidator:       arguments,
		Action:             action,
	}
}

func atMostAGroup(_ context.Context, cmd *cli.Command) error {
	switch args := cmd.Args(); {
	case args.Len() > 1:
		return &usageError{fmt.Sprintf("one group at most, or none for all; see %s --help", cmd.FullName())}
	case args.Present() && args.First() == "": // a variable of the shell that is not set; it must not mean all
		return &usageError{fmt.Sprintf("the group has no name: name one, or leave it out for all; see %s --help", cmd.FullName())}
	}
	return nil
}

func oneArgument(what, example string) cli.ArgValidatorFunc {
	return func(_ context.Context, cmd *cli.Command) error {
		if cmd.Args().Len() != 1 || cmd.Args().First() == "" {
			return &usageError{fmt.Sprintf("give %s, as in phxworker %s", what, example)}
		}
		return nil
	}
}

// remote returns the worker that a command is about, with the token that was given
// or the one that the worker keeps for its user.
func (p *program) remote(ctx context.Context, cmd *cli.Command) (*remote, error) {
	address, err := p.workerURL(cmd.String("url"))
	if err != nil {
		return nil, err
	}
	key, err := options.HTTPToken(cmd, p.getenv)
	if err != nil {
		return nil, err
	}
	worker := newRemote(address, key)
	if key == "" {
		worker.findToken(ctx, token.Places(p.getenv))
	}
	return worker, nil
}

// workerURL returns where the worker is: as told, or where a worker with the same
// environment listens.
func (p *program) workerURL(told string) (*url.URL, error) {
	from := "--url"
	if told == "" {
		told, from = p.getenv("WORKER_HTTP_URL"), "WORKER_HTTP_URL"
	}
	if told != "" {
		u, err := url.Parse(told)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
			return nil, &usageError{from + " is not the address of a worker: write it like http://127.0.0.1:2222"}
		}
		if anywhere(u.Hostname()) { // as a worker is told where to listen
			u.Host = strings.TrimSuffix(net.JoinHostPort("127.0.0.1", u.Port()), ":")
		}
		return u, nil
	}
	host, port := p.getenv("WORKER_HOST"), p.getenv("WORKER_PORT")
	if host == "" || anywhere(host) {
		host = "127.0.0.1"
	}
	switch port {
	case "":
		port = "2222"
	default:
		if n, err := strconv.ParseUint(port, 10, 16); err != nil || n == 0 {
			return nil, &usageError{fmt.Sprintf("WORKER_PORT is %q, which does not tell where the worker is: its log does, if it serves HTTP at all; give that address with --url", port)}
		}
	}
	return &url.URL{Scheme: "http", Host: net.JoinHostPort(host, port)}, nil
}

// anywhere reports whether a host stands for all addresses of a machine.
func anywhere(host string) bool {
	addr, err := netip.ParseAddr(host)
	return err == nil && addr.IsUnspecified()
}

func (p *program) pause(ctx context.Context, cmd *cli.Command) error {
	return p.turn(ctx, cmd, "pause")
}

func (p *program) resume(ctx context.Context, cmd *cli.Command) error {
	return p.turn(ctx, cmd, "resume")
}

// turn pauses or resumes the group of the command line, or all.
func (p *program) turn(ctx context.Context, cmd *cli.Command, what string) error {
	worker, err := p.remote(ctx, cmd)
	if err != nil {
		return err
	}
	path := "/" + what
	if group := cmd.Args().First(); group != "" {
		path += "?" + url.Values{"group": {group}}.Encode()
	}
	return p.showGroups(worker.groups(ctx, http.MethodPost, path, nil))
}

func (p *program) slots(ctx context.Context, cmd *cli.Command) error {
	groups, err := slots.Parse(cmd.Args().First())
	if err != nil {
		return &usageError{err.Error()}
	}
	named := make(map[string]bool)
	for i := range groups {
		checked, _, err := slots.Check(groups[i : i+1]) // each by itself: of two that are alike it would make one
		if err != nil {
			return &usageError{err.Error()}
		}
		groups[i] = checked[0]
		if name := groups[i].Name; named[name] {
			return &usageError{fmt.Sprintf("the slot group %q is named twice: keep one of them", name)}
		}
		named[groups[i].Name] = true
	}
	worker, err := p.remote(ctx, cmd)
	if err != nil {
		return err
	}
	var changed []phxworker.GroupStats
	for _, group := range groups {
		body := fmt.Appendf(nil, `{"slots":%d}`, group.Slots)
		now, err := worker.groups(ctx, http.MethodPut, "/groups/"+url.PathEscape(group.Name), body)
		if err != nil {
			if len(changed) > 0 { // these stay so
				err = errors.Join(p.showGroups(changed, nil), err)
			}
			return err
		}
		changed = append(changed, now...)
	}
	return p.showGroups(changed, nil)
}

func (p *program) cancel(ctx context.Context, cmd *cli.Command) error {
	worker, err := p.remote(ctx, cmd)
	if err != nil {
		return err
	}
	id := cmd.Args().First()
	if err := worker.ask(ctx, http.MethodPost, "/runs/"+url.PathEscape(id)+"/cancel", nil, nil); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "%s is being cancelled; phxworker status shows when it has ended\n", printable(id))
	return nil
}

func (p *program) drain(ctx context.Context, cmd *cli.Command) error {
	worker, err := p.remote(ctx, cmd)
	if err != nil {
		return err
	}
	before, err := worker.status(ctx)
	if err != nil {
		return err
	}
	var answer struct{ Running int }
	if err := worker.ask(ctx, http.MethodPost, "/drain", nil, &answer); err != nil {
		return err
	}
	fmt.Fprintf(p.stdout, "draining: no more claims, runs under way: %d\n", answer.Running)
	if !cmd.Bool("wait") {
		return nil
	}
	if err := worker.outlive(ctx, before.Process.Started); err != nil {
		return err
	}
	fmt.Fprintln(p.stdout, "the worker has ended")
	return nil
}
