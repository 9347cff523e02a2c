package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker/cmd/phxworker/build"
	"github.com/phxworker/phxworker/cmd/phxworker/secrets"
	"github.com/phxworker/phxworker/examples"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/mockserver/page"
)

// defaultSecret lets server and worker be started without thinking of one: it is
// what phxworker takes for the endpoint "mock" as well. It
// protects nothing.
const defaultSecret = "mock-worker-secret" //nolint:gosec // no secret at all

// transcript is how many frames are kept, for GET /run/{id}/transcript: those of 10,000 runs, as far as memory goes.
const transcript = 200_000

// usageError is a fault of the command line.
type usageError struct{ error }

// run runs the command until ctx ends, and returns the exit code. Errors are
// one line on stderr.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	cmd := newCommand(stdout, stderr)
	err := cmd.Run(ctx, args)
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "mockserver:", err)
	if errors.As(err, new(usageError)) {
		return 2
	}
	return 1
}

func newCommand(stdout, stderr io.Writer) *cli.Command {
	return &cli.Command{
		Name:      "mockserver",
		Usage:     "a mock of OpenFn Lightning for workers to connect to",
		UsageText: "mockserver [options]",
		Version:   build.Read().String(),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "host", Usage: "the `ADDRESS` to listen on", Value: "127.0.0.1"},
			&cli.IntFlag{Name: "port", Aliases: []string{"p"}, Usage: "the `PORT` to listen on; 0 takes a free one", Value: 8888},
			&cli.StringFlag{
				Name: "secret", Aliases: []string{"s"}, Usage: "the `SECRET` that workers sign their tokens with",
				Value: defaultSecret, Sources: cli.EnvVars("WORKER_SECRET"),
			},
			&cli.StringFlag{Name: "secret-file", Usage: "a `FILE` with the secret, in one line", Sources: cli.EnvVars("WORKER_SECRET_FILE")},
			&cli.DurationFlag{Name: "wake-debounce", Usage: "how long after a run is posted the workers are told; 0 is at once", Value: 500 * time.Millisecond},
			&cli.DurationFlag{Name: "run-timeout", Usage: "the time limit of runs whose plan has none", Value: 5 * time.Minute},
			&cli.DurationFlag{Name: "janitor-interval", Usage: "how often overdue runs are marked lost", Value: 5 * time.Minute},
			&cli.DurationFlag{Name: "idle-timeout", Usage: "how long a worker may be silent", Value: time.Minute},
			&cli.Int64Flag{Name: "max-frame", Usage: "the largest message taken, in `BYTES` after decompression", Value: 11_000_000},
			&cli.IntFlag{Name: "max-topics", Usage: "how many topics a socket can have joined", Value: 100},
			&cli.IntFlag{Name: "max-queued", Usage: "how many runs may wait to be claimed; 0 is no limit, which is the default with --mode lightning", Value: 1000},
			&cli.IntFlag{Name: "keep-runs", Usage: "how many ended runs are remembered", Value: 10_000},
			&cli.BoolFlag{Name: "wipe-dataclips", Usage: "erase inputs once read and keep no outputs"},
			&cli.StringFlag{Name: "dataclips", Usage: "the `FORM` of outputs that is taken: either, as by Lightning from 2.19 on, texts, as before, or objects, as in versions to come", Value: mockserver.EitherDataclips.String()},
			&cli.BoolFlag{Name: "opaque-tokens", Usage: "do not sign run tokens, which is faster"},
			&cli.StringFlag{
				Name: "mode", Aliases: []string{"m"}, Usage: "`MODE` lightning, or extended: then the extensions of docs/extensions are known",
				Value: string(mockserver.Lightning),
			},
			&cli.StringFlag{Name: "extensions", Usage: "the `NAMES` of those that are announced, with commas between; none is \"\" (extended mode; default: all)"},
			&cli.DurationFlag{Name: "lease", Usage: "how long a claim or a renewal is good for (extended mode)", Value: 20 * time.Minute},
			&cli.DurationFlag{Name: "claim-ack", Usage: "how long a worker may take from a claim to the join of the run (extended mode)", Value: 20 * time.Second},
			&cli.DurationFlag{Name: "status-interval", Usage: "how often workers are asked to send their status (extended mode)", Value: 15 * time.Second},
			&cli.DurationFlag{Name: "status-timeout", Usage: "how long a worker may send no status before it counts as silent (extended mode)", Value: 30 * time.Second},
			&cli.DurationFlag{Name: "max-wait", Usage: "how long a claim waits for a run at most (extended mode)", Value: 20 * time.Second},
			&cli.DurationFlag{Name: "affinity-wait", Usage: "how long a run with a key waits for its worker (extended mode)", Value: 10 * time.Second},
			&cli.StringSliceFlag{Name: "fault", Usage: "a `FAULT` from the start, as JSON, such as {\"event\":\"claim\",\"action\":\"delay\",\"delay\":\"15s\"}; may be repeated"},
			&cli.Uint64Flag{Name: "fault-seed", Usage: "the `SEED` of faults with a probability; 0 takes a random one"},
			&cli.StringFlag{Name: "log", Usage: "the `LEVEL` from which on to log: debug, info, warn or error", Value: "info"},
		},
		HideHelpCommand:           true,
		DisableSliceFlagSeparator: true, // a fault has commas of its own
		Writer:                    stdout,
		ErrWriter:                 stderr,
		// Errors are printed and turned into exit codes by run alone.
		ExitErrHandler: func(context.Context, *cli.Command, error) {},
		OnUsageError: func(_ context.Context, cmd *cli.Command, err error, _ bool) error {
			return usageError{fmt.Errorf("%w (see mockserver --help)", explain(cmd, err))}
		},
		Action: func(ctx context.Context, cmd *cli.Command) error {
			cfg, err := config(cmd, stderr)
			if err != nil {
				return usageError{err}
			}
			return serve(ctx, cfg, stdout)
		},
	}
}

// config makes the server's configuration of the flags.
func config(cmd *cli.Command, stderr io.Writer) (mockserver.Config, error) {
	if cmd.Args().Present() {
		return mockserver.Config{}, fmt.Errorf("unexpected argument %q (see mockserver --help)", cmd.Args().First())
	}
	if port := cmd.Int("port"); port < 0 || port > 65535 {
		return mockserver.Config{}, fmt.Errorf("--port %d is not between 0 and 65535", port)
	}
	secret, err := secretOf(cmd)
	if err != nil {
		return mockserver.Config{}, err
	}
	for _, name := range []string{"run-timeout", "janitor-interval", "idle-timeout"} {
		if cmd.Duration(name) <= 0 {
			return mockserver.Config{}, fmt.Errorf("--%s must be more than nothing", name)
		}
	}
	if cmd.Int64("max-frame") <= 0 || cmd.Int("max-topics") <= 0 {
		return mockserver.Config{}, errors.New("--max-frame and --max-topics must be more than nothing")
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(cmd.String("log"))); err != nil {
		return mockserver.Config{}, fmt.Errorf("--log %q is not one of debug, info, warn, error", cmd.String("log"))
	}
	faults, err := parseFaults(cmd.StringSlice("fault"))
	if err != nil {
		return mockserver.Config{}, err
	}
	dataclips, err := lightning.ParseDataclips(cmd.String("dataclips"))
	if err != nil {
		return mockserver.Config{}, fmt.Errorf("--dataclips: %w", err)
	}
	cfg := mockserver.Config{
		Addr:            net.JoinHostPort(cmd.String("host"), strconv.Itoa(cmd.Int("port"))),
		Secret:          secret,
		OpaqueTokens:    cmd.Bool("opaque-tokens"),
		RunTimeout:      cmd.Duration("run-timeout"),
		WakeDebounce:    orNone(cmd.Duration("wake-debounce")),
		JanitorInterval: cmd.Duration("janitor-interval"),
		KeepRuns:        orNone(cmd.Int("keep-runs")),
		WipeDataclips:   cmd.Bool("wipe-dataclips"),
		Dataclips:       dataclips,
		IdleTimeout:     cmd.Duration("idle-timeout"),
		MaxFrame:        cmd.Int64("max-frame"),
		MaxTopics:       cmd.Int("max-topics"),
		Faults:          faults,
		FaultSeed:       cmd.Uint64("fault-seed"),
		TranscriptLimit: transcript,
		Page:            page.New(examples.Files()),
		Logger:          slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level})),
	}
	if secret == cmd.String("secret") && secret != defaultSecret && secret != os.Getenv("WORKER_SECRET") {
		cfg.Logger.Warn("a secret is on the command line", "option", "--secret", "reason", "every user of this machine can read it there: set WORKER_SECRET or --secret-file in its place")
	}
	err = extend(&cfg, cmd)
	return cfg, err
}

// secretOf returns the secret of the flags or variables, or of the file that they name.
func secretOf(cmd *cli.Command) (string, error) {
	switch path := cmd.String("secret-file"); {
	case path != "" && cmd.IsSet("secret") && cmd.String("secret") != "":
		return "", errors.New("--secret (WORKER_SECRET) and --secret-file (WORKER_SECRET_FILE) exclude each other: keep one of them")
	case path != "":
		secret, _, err := secrets.Read(path)
		if err != nil {
			return "", fmt.Errorf("--secret-file: %w", err)
		}
		return secret, nil
	case cmd.String("secret") == "":
		return "", errors.New("--secret is empty: leave it out for the default, or unset WORKER_SECRET")
	}
	return cmd.String("secret"), nil
}

func parseFaults(texts []string) ([]fault.Rule, error) {
	rules := make([]fault.Rule, len(texts))
	for i, text := range texts {
		var err error
		if rules[i], err = fault.Parse([]byte(text)); err != nil {
			return nil, fmt.Errorf("--fault %s: %w", text, err)
		}
	}
	return rules, nil
}

// orNone is for options whose zero means none here and the default in a Config,
// where a negative value means none.
func orNone[T int | time.Duration](v T) T {
	if v == 0 {
		return -1
	}
	return v
}

func serve(ctx context.Context, cfg mockserver.Config, stdout io.Writer) error {
	server, err := mockserver.Start(cfg)
	if errors.Is(err, syscall.EADDRINUSE) {
		return fmt.Errorf("%s is in use: choose another port with --port, or 0 for a free one", cfg.Addr)
	}
	if err != nil {
		return err
	}
	greet(stdout, server)
	<-ctx.Done()
	fmt.Fprintln(stdout, "stopping")
	return server.Close()
}

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

// greet tells what a worker and a shell need to know.
func greet(w io.Writer, server *mockserver.Server) {
	secret := "(as given)"
	if server.Secret() == defaultSecret {
		secret = defaultSecret
	}
	key := server.PublicKey()
	if key == "" {
		key = "(none: run tokens are opaque)"
	}
	name := "mock Lightning"
	if server.Mode() == mockserver.Extended {
		name = "mock Lightning with extensions"
	}
	fmt.Fprintf(w, `%[5]s at %[1]s (stop with Ctrl+C)

worker URL     %[2]s
WORKER_SECRET  %[3]s
WORKER_LIGHTNING_PUBLIC_KEY (to verify run tokens)
%[4]s

Open %[1]s in a browser, or queue a run here, and look at it:
  curl -X POST '%[1]s/run?wait=10' -d '{"id":"run-1","jobs":[{"id":"a","adaptor":"@openfn/language-common","body":"fn(state => ({ ...state, hello: 42 }))"}]}'
  curl %[1]s/run/run-1
`, server.HTTPURL(), server.URL(), secret, key, name)
}
