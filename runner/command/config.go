package command

import (
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/command/cgroup"
)

// Config says what the processes of a [Pool] are. All but Args may be left zero.
type Config struct {
	// Args are the program and its arguments. A program without a slash is
	// looked up in the PATH of the worker. Processes have a working folder of
	// their own, so a relative path of a file that exists is made absolute.
	Args []string
	// Env is the environment of the processes, as "key=value", besides TMPDIR
	// and HOME, which are their own. Defaults to PATH, LANG, LC_ALL and TZ of
	// the worker; its other variables are never passed on.
	Env []string
	// Grant returns further arguments, to be placed right behind the program,
	// that depend on the temporary folder of the process, once it has put there what
	// the process needs. An error says that it cannot be started. Defaults to none.
	Grant func(tmp string) ([]string, error)
	// Wrap changes how a process with this temporary folder is started, as for fences of the
	// kernel around it. An error says that it cannot be started. Defaults to none: the
	// process may do what the worker's user may.
	Wrap func(process *exec.Cmd, tmp string) error
	// TempMB is how much the temporary folder of a process may hold, in MB of 2^20
	// bytes, with what the process has open and removed; nothing may lie deeper than a path can be long. Beyond,
	// the process is killed and the run is a Kill of type DiskError. 0 is no limit. It is looked at every second of a run.
	TempMB int
	// Cgroups is where each process gets a group of its own, which the kernel keeps to the memory
	// of its run; see [Request.LimitMB]. Defaults to none: then memory is watched.
	Cgroups *cgroup.Parent
	// Spares is how many processes are kept ready, from the first run on.
	// Defaults to 0.
	Spares int
	// SpareIdle is how long processes without a run are kept after the last run
	// of the pool. Defaults to 1 min.
	SpareIdle time.Duration
	// Runs is how many runs a process executes before it is replaced, all of them
	// of one owner: see [Request.Owner]. With more than one, what a run leaves in
	// the process is there for the next. Defaults to 1.
	Runs int
	// CancelGrace is how long a process has to end a run by itself once it was
	// told to, and to exit at the end of its input. Defaults to 2 s; negative for
	// none.
	CancelGrace time.Duration
	// StartTimeout is how long a process may take until it is ready. Defaults
	// to 30 s.
	StartTimeout time.Duration
	// MaxLine is the longest message of a process, in bytes; a longer one ends
	// its run. Defaults to 64 MiB.
	MaxLine int
	// Died says what it means that a process exits in the middle of a run.
	// Where it is nil or returns nil, the run is a Crash of type ExitError.
	Died func(Exit) *runner.Failure
	// Settings are files that a process can read only as they were when it started: it is
	// given no further run once one of them was replaced. Defaults to none.
	Settings []string
	// Logger defaults to one that discards.
	Logger *slog.Logger
}

func (c Config) withDefaults() Config {
	if c.Env == nil {
		c.Env = Environment()
	}
	if c.SpareIdle == 0 {
		c.SpareIdle = time.Minute
	}
	c.Runs = max(c.Runs, 1)
	if c.CancelGrace == 0 {
		c.CancelGrace = 2 * time.Second
	}
	if c.StartTimeout == 0 {
		c.StartTimeout = 30 * time.Second
	}
	if c.MaxLine == 0 {
		c.MaxLine = 64 << 20
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// Environment returns the variables of the worker that a child of it may have: those that
// [Config.Env] defaults to, and those named besides. A name that ends in * stands for all
// that begin so. No child gets its variables in another way.
func Environment(besides ...string) []string {
	names := append([]string{"PATH", "LANG", "LC_ALL", "TZ"}, besides...)
	env := []string{}
	for _, entry := range os.Environ() {
		name, _, _ := strings.Cut(entry, "=")
		if slices.ContainsFunc(names, func(wanted string) bool { return isNamed(name, wanted) }) {
			env = append(env, entry)
		}
	}
	return env
}

func isNamed(name, wanted string) bool {
	beginning, all := strings.CutSuffix(wanted, "*")
	return name == wanted || all && strings.HasPrefix(name, beginning)
}

// resolve returns the path of the program, and the arguments as a process with
// another working folder needs them.
func resolve(args []string) (program string, absolute []string, err error) {
	if len(args) == 0 || args[0] == "" {
		return "", nil, &ProgramError{Reason: "none is named"}
	}
	program, err = exec.LookPath(args[0])
	if err == nil {
		program, err = filepath.Abs(program)
	}
	if err != nil {
		reason := "it cannot be executed: " + err.Error()
		if strings.Contains(args[0], "/") {
			if _, statErr := os.Stat(args[0]); os.IsNotExist(statErr) {
				reason = "there is no such file"
			}
		} else {
			reason = "it is not in the PATH; install it, or name it with its path"
		}
		return "", nil, &ProgramError{Program: args[0], Reason: reason}
	}
	absolute = slices.Clone(args)
	for i, arg := range absolute[1:] {
		if info, err := os.Stat(arg); err != nil || !info.Mode().IsRegular() {
			continue
		}
		path, err := filepath.Abs(arg)
		if err != nil {
			return "", nil, fmt.Errorf("the argument %q of the engine has no absolute path: %w", arg, err)
		}
		absolute[i+1] = path
	}
	return program, absolute, nil
}
