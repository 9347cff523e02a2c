package adaptors

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"github.com/phxworker/phxworker/runner/command"
)

// waitDelay is how long the pipes of a child that has ended are read which a child of its
// own still holds.
const waitDelay = time.Second

// process is a child that ends with its context, and all that it started too.
func process(ctx context.Context, path string, args ...string) *exec.Cmd {
	cmd := exec.CommandContext(ctx, path, args...) //nolint:gosec // node of the PATH; what comes from plans is checked by parse
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = waitDelay
	return cmd
}

// jobEnv is the environment in which the code of a package may run: the same as
// that of a job.
func jobEnv() []string { return command.Environment() }

// inTurn does work when fewer than [atATime] others are at it. The error is the
// work's, or why ctx ended before.
func (r *Repo) inTurn(ctx context.Context, work func() error) error {
	select {
	case r.turns <- struct{}{}:
		defer func() { <-r.turns }()
		return work()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// script is a program for Node that answers on file descriptor 3, so that what
// a package prints when it is loaded is not mistaken for the answer. A package that
// means harm can answer in its place, so an answer is believed of that package only.
type script struct {
	node  string
	flags []string
	code  string // an ES module
	args  []string
}

// scriptError is a script that failed.
type scriptError struct {
	exit *exec.ExitError
	said string // the end of its standard error
}

func (e *scriptError) Error() string { return "node: " + e.exit.Error() + "\n" + e.said }

func (e *scriptError) Unwrap() error { return e.exit }

// ask runs the script with the node in PATH and arguments as its argument, in JSON.
func (s script) ask(ctx context.Context, arguments any) (answer []byte, err error) {
	path, err := exec.LookPath("node")
	if err != nil {
		return nil, err
	}
	text, err := json.Marshal(arguments)
	if err != nil {
		return nil, err
	}
	s.node, s.args = path, []string{string(text)}
	return s.run(ctx)
}

// maxAnswer is more than any code cache has, in bytes.
const maxAnswer = 64 << 20

var errLongAnswer = fmt.Errorf("the answer is over %d bytes", maxAnswer)

// run returns the answer. The error is a [*scriptError] when Node failed.
func (s script) run(ctx context.Context) (answer []byte, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	cmd := process(ctx, s.node, append(append(append([]string{}, s.flags...), "--input-type=module", "-"), s.args...)...)
	var said tail
	// It runs the code of packages, so it gets no more than a job. No environment would be all of the worker's.
	cmd.Env = command.Environment()
	cmd.Stdin, cmd.Stderr, cmd.ExtraFiles = strings.NewReader(s.code), &said, []*os.File{w}
	err = cmd.Start()
	_ = w.Close() // the child has its own
	if err != nil {
		return nil, err
	}
	answer, readErr := io.ReadAll(io.LimitReader(r, maxAnswer+1)) // ends with the process, whose descriptor no child of its own inherits
	if len(answer) > maxAnswer {
		cancel()
		_ = cmd.Wait()
		return nil, errLongAnswer
	}
	err = cmd.Wait()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return nil, &scriptError{exit, strings.TrimSpace(said.String())}
	}
	return answer, errors.Join(err, readErr)
}

// tail keeps the end of what is written to it.
type tail struct{ buf bytes.Buffer }

const maxTail = 16 << 10

func (t *tail) Write(p []byte) (int, error) {
	t.buf.Write(p)
	if over := t.buf.Len() - maxTail; over > 0 {
		t.buf.Next(over)
	}
	return len(p), nil
}

func (t *tail) String() string { return t.buf.String() }
