package main

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"time"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/server"
)

// script is a command of the shell that does something on the other side of the server under test.
type script string

// exitCannot is with what it exits when it cannot do what is asked for.
const exitCannot = 3

// commandLimit is how long a command may take. One that hangs would take a case's whole time, again for each case.
const commandLimit = 30 * time.Second

// run gives the command an input and arguments, and returns what it prints.
func (s script) run(ctx context.Context, input []byte, args ...string) ([]byte, error) {
	return s.runWithin(ctx, commandLimit, input, args...)
}

func (s script) runWithin(ctx context.Context, limit time.Duration, input []byte, args ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, limit, fmt.Errorf("it has not ended within %v, and was killed", limit))
	defer cancel()
	cmd := exec.CommandContext(ctx, "sh", append([]string{"-c", string(s) + ` "$@"`, "sh"}, args...)...) //nolint:gosec // it is what the user asks for
	killGroup(cmd)
	var stderr bytes.Buffer
	cmd.Stdin, cmd.Stderr, cmd.WaitDelay = bytes.NewReader(input), &stderr, time.Second
	printed, err := cmd.Output()
	said := strings.TrimSpace(stderr.String())
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == exitCannot {
		return nil, fmt.Errorf("%w: %s", server.ErrCannot, said)
	}
	if err != nil && ctx.Err() != nil {
		return nil, fmt.Errorf("the command has failed: %w: %s", context.Cause(ctx), cmp.Or(said, "it wrote nothing to stderr"))
	}
	if err != nil { // without the command, which may have a secret in it: reports are passed around
		return nil, fmt.Errorf("the command has failed: %w: %s", err, said)
	}
	return bytes.TrimSpace(printed), nil
}

// enqueue hands the command the plan, with what belongs to the run as further fields of it.
func (s script) enqueue(ctx context.Context, run mockserver.Run) (id string, err error) {
	var plan map[string]json.RawMessage
	if err := json.Unmarshal(run.Plan, &plan); err != nil {
		return "", fmt.Errorf("read the plan: %w", err)
	}
	further := map[string]any{}
	if run.Queue != "" {
		further["queue"] = run.Queue
	}
	if run.Priority == mockserver.Immediate {
		further["priority"] = "immediate"
	}
	if run.Key != "" {
		further["key"] = run.Key
	}
	if run.Dataclip != nil {
		further["dataclip"] = run.Dataclip
	}
	if run.Credentials != nil {
		further["credentials"] = run.Credentials
	}
	for name, value := range further {
		if plan[name], err = json.Marshal(value); err != nil {
			return "", fmt.Errorf("write the run's %s: %w", name, err)
		}
	}
	input, err := json.Marshal(plan)
	if err != nil {
		return "", fmt.Errorf("write the plan: %w", err)
	}
	printed, err := s.run(ctx, input)
	if err != nil {
		return "", err
	}
	return idIn(printed)
}

// idIn reads the id that a command has printed, alone or in an object.
func idIn(printed []byte) (string, error) {
	var object struct{ ID string }
	if json.Unmarshal(printed, &object) == nil && object.ID != "" {
		return object.ID, nil
	}
	if text := string(printed); text != "" && !strings.ContainsAny(text, " \t\r\n{}[]\"") {
		return text, nil
	}
	return "", fmt.Errorf(`the command printed no id, neither alone nor as {"id":…}: %.200s`, printed)
}

func (s script) cancel(ctx context.Context, id, message string) error {
	input, err := json.Marshal(map[string]string{"message": message})
	if err == nil {
		_, err = s.run(ctx, input, "cancel", id)
	}
	return err
}

func (s script) notify(ctx context.Context, id string, notice json.RawMessage) error {
	_, err := s.run(ctx, notice, "notify", id)
	return err
}

func (s script) drain(ctx context.Context) error {
	_, err := s.run(ctx, []byte(`{}`), "drain")
	return err
}
