package command

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"syscall"

	"github.com/phxworker/phxworker/runner"
)

// ErrClosed says that the pool was closed.
var ErrClosed = errors.New("the pool of engine processes is closed")

// ProgramError says that the program of an engine is not there.
type ProgramError struct {
	Program string
	Reason  string
}

func (e *ProgramError) Error() string {
	if e.Program == "" {
		return "the engine's program cannot be started: " + e.Reason
	}
	return fmt.Sprintf("the engine's program %q cannot be started: %s", e.Program, e.Reason)
}

// Exit is how a process ended.
type Exit struct {
	// Code is -1 when a signal ended the process.
	Code int
	// Signal is 0 when the process ended by itself.
	Signal syscall.Signal
	// Stderr is the last of what the process wrote there during its run, at most
	// 16 KiB. In a process that is reused it may begin with what an earlier run
	// wrote late.
	Stderr []byte
}

func exitOf(state *os.ProcessState, stderr []byte) Exit {
	exit := Exit{Code: state.ExitCode(), Stderr: stderr}
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		exit.Signal = status.Signal()
	}
	return exit
}

// String returns "code: 1" or "signal: killed".
func (e Exit) String() string {
	if e.Signal != 0 {
		return "signal: " + e.Signal.String()
	}
	return "code: " + strconv.Itoa(e.Code)
}

// startError says that a process did not come so far as to take a run.
type startError struct {
	what string
	exit *Exit // nil if the process was not started, or did not exit by itself
}

func (e *startError) Error() string {
	text := "The engine could not be started: " + e.what
	if e.exit != nil {
		text += " (" + e.exit.String() + ")"
		if last := tellingLine(e.exit.Stderr); last != "" {
			text += ": " + last
		}
	}
	return text
}

// unstarted is how a run ends that has got no process. That says nothing of the run: the
// program does not work here, or the machine has no room for it.
func unstarted(err error) error {
	start, ok := errors.AsType[*startError](err)
	if !ok {
		return err
	}
	return errors.Join(runner.Unable(engineFailure(start)), ErrUnstarted)
}

// ErrUnstarted says that a run has got no process, and nothing of it was begun.
var ErrUnstarted = errors.New("no process could be started")

// The failures of a run that are about its process.

func engineFailure(err error) *runner.Failure {
	return &runner.Failure{Reason: runner.Exception, Type: "EngineError", Message: err.Error()}
}

func exitFailure(exit Exit) *runner.Failure {
	return &runner.Failure{Reason: runner.Crash, Type: "ExitError", Message: "Process exited with " + exit.String()}
}

func memoryFailure() *runner.Failure {
	return &runner.Failure{Reason: runner.Kill, Type: "OOMError", Message: "Run exceeded maximum memory usage"}
}

func spaceFailure(limitMB int) *runner.Failure {
	message := fmt.Sprintf("Run exceeded maximum size of temporary files (%d MB)", limitMB)
	return &runner.Failure{Reason: runner.Kill, Type: "DiskError", Message: message}
}

func tooLongFailure(limit int) *runner.Failure {
	message := fmt.Sprintf("The engine sent a message of more than %d bytes", limit)
	return &runner.Failure{Reason: runner.Crash, Type: "ExecutionError", Message: message}
}

func protocolFailure(format string, args ...any) *runner.Failure {
	message := "The engine broke its protocol: " + fmt.Sprintf(format, args...)
	return &runner.Failure{Reason: runner.Crash, Type: "ProtocolError", Message: message}
}
