//go:build linux && (amd64 || arm64)

package fence

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// probeTime is how long a probe may take.
const probeTime = 10 * time.Second

// leftOpen is a descriptor that a probe should not find open, beyond those that
// Go's runtime opens itself.
const leftOpen = 20

// Probe starts a process within the fences, which tries what they forbid, and
// returns what it found.
func Probe(ctx context.Context) []State {
	states, err := probe(ctx)
	if err != nil {
		return allDown("no process could be started to try them: " + err.Error())
	}
	return states
}

func probe(ctx context.Context) ([]State, error) {
	ctx, cancel := context.WithTimeout(ctx, probeTime)
	defer cancel()
	policy := Policy{Execute: append(mapped(), self), MaxFile: 1 << 20}
	cmd := exec.CommandContext(ctx, self)
	cmd.Args = []string{probeName}
	if err := policy.Wrap(cmd); err != nil {
		return nil, err
	}
	left, err := os.Open(os.DevNull) // something to find open
	if err != nil {
		return nil, err
	}
	defer func() { _ = left.Close() }()
	cmd.Env, cmd.Dir, cmd.ExtraFiles = []string{}, "/", slices.Repeat([]*os.File{left}, leftOpen-2)
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && len(exit.Stderr) > 0 {
		err = fmt.Errorf("%w: %s", err, strings.TrimSpace(string(exit.Stderr)))
	}
	if err != nil {
		return nil, err
	}
	var states []State
	err = json.Unmarshal(out, &states)
	return states, err
}

// mapped are the files that this program is made of.
func mapped() []string {
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		return nil
	}
	return MappedIn(string(maps))
}

// look tells on standard output what this process finds that it may do.
func look() {
	missing := lacks{}
	_ = json.Unmarshal([]byte(os.Getenv(missingKey)), &missing) // empty if there is none
	var states []State
	for _, fence := range []struct {
		name  string
		holds func() bool
		means []string
	}{
		{Files, filesHeld, []string{landlock}},
		{Signals, func() bool { return unix.Kill(os.Getppid(), 0) == unix.EPERM }, []string{seccomp, landlock}},
		{Processes, processesHeld, []string{seccomp}},
		{Sockets, socketsHeld, []string{seccomp}},
		{Privileges, privilegesHeld, []string{noNewPrivs, capabilities}},
		{Cores, func() bool { return limitOf(unix.RLIMIT_CORE) <= 1 }, []string{limits}},
		{Sizes, func() bool { return limitOf(unix.RLIMIT_FSIZE) < unix.RLIM_INFINITY }, []string{limits}},
		{Descriptors, func() bool { return refuses(unix.SYS_FCNTL, unix.EBADF, leftOpen, unix.F_GETFD) }, []string{closing}},
	} {
		state := State{Name: fence.name, Up: fence.holds()}
		for _, means := range fence.means {
			if !state.Up && state.Why == "" {
				state.Why = missing[means]
			}
		}
		if !state.Up && state.Why == "" {
			state.Why = "it was put up and does not hold"
		}
		states = append(states, state)
	}
	_ = json.NewEncoder(os.Stdout).Encode(states)
}

// refuses reports whether a call ends with this error. The calls that are tried fail in
// any case, with another one where nothing refuses them.
func refuses(nr uintptr, with unix.Errno, args ...uintptr) bool {
	all := [3]uintptr{}
	copy(all[:], args)
	_, _, errno := unix.RawSyscall(nr, all[0], all[1], all[2])
	return errno == with
}

func filesHeld() bool {
	for path, flags := range map[string]int{"/": unix.O_RDONLY | unix.O_DIRECTORY, "/dev/full": unix.O_WRONLY} {
		if fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0); err == nil {
			_ = unix.Close(fd)
			return false
		}
	}
	return true
}

func processesHeld() bool {
	return refuses(unix.SYS_CLONE, unix.EPERM, unix.CLONE_SIGHAND) && refuses(unix.SYS_CLONE3, unix.ENOSYS) &&
		refuses(unix.SYS_PTRACE, unix.EPERM, 0xffff)
}

func socketsHeld() bool {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err == nil {
		_ = unix.Close(fd)
		return false
	}
	return refuses(unix.SYS_LISTEN, unix.EPERM, ^uintptr(0))
}

func privilegesHeld() bool {
	set, err := unix.PrctlRetInt(unix.PR_GET_NO_NEW_PRIVS, 0, 0, 0, 0)
	has, capErr := getCapabilities()
	return err == nil && capErr == nil && set == 1 && has[0].Permitted&^keptCapabilities == 0 && has[1].Permitted == 0
}

func limitOf(resource int) uint64 {
	limit := unix.Rlimit{Cur: unix.RLIM_INFINITY}
	_ = unix.Getrlimit(resource, &limit)
	return limit.Cur
}
