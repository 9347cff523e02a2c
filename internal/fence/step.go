//go:build linux && (amd64 || arm64)

package fence

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// Supported says that this system may have fences.
const Supported = true

// self is this program, also where its file was replaced or removed meanwhile.
const self = "/proc/self/exe"

// The fences are for one thread until the program is executed, and there it must be the
// one that leads the process. That thread has the inits to itself.
//
//nolint:gochecknoinits // nothing else comes before a main that is not ours
func init() { become() }

// become is the way of a program that started itself: it does not return. For any other it
// does nothing, also for one that was started without even its name, as old kernels let it.
func become() {
	switch {
	case len(os.Args) == 0:
	case os.Args[0] == stepName && len(os.Args) > 3:
		fmt.Fprintln(os.Stderr, "phxworker:", step(os.Args[1], os.Args[2], os.Args[3:]))
		os.Exit(127)
	case os.Args[0] == probeName:
		look()
		os.Exit(0)
	}
}

// step becomes the program. It returns only what kept it from that.
func step(text, program string, args []string) error {
	var policy Policy
	if err := json.Unmarshal([]byte(text), &policy); err != nil {
		return err
	}
	missing := policy.putUp()
	if policy.Require && len(missing) > 0 {
		return fmt.Errorf("no process is started without all fences: %w", missing)
	}
	env := os.Environ()
	if args[0] == probeName {
		told, err := json.Marshal(missing)
		if err != nil {
			return err
		}
		env = append(env, missingKey+"="+string(told))
	}
	if err := unix.Exec(program, args, env); err != nil {
		return fmt.Errorf("%s cannot be executed: %w", program, err)
	}
	return nil
}

// missingKey is the variable that tells a probe what could not be put up.
const missingKey = "PHXWORKER_FENCES_MISSING"

// The means by which fences are put up.
const (
	limits       = "limits"
	closing      = "close_range"
	capabilities = "capabilities"
	noNewPrivs   = "no_new_privs"
	landlock     = "Landlock"
	seccomp      = "seccomp"
)

// lacks says of each means that there was not to be had why.
type lacks map[string]string

func (l lacks) Error() string {
	var all []string
	for _, means := range []string{limits, closing, capabilities, noNewPrivs, landlock, seccomp} {
		if why := l[means]; why != "" {
			all = append(all, why)
		}
	}
	return strings.Join(all, "; ")
}

// note keeps, in one line, why a means was not to be had, if it was not.
func (l lacks) note(means string, err error) {
	if err != nil {
		l[means] = means + ": " + strings.ReplaceAll(err.Error(), "\n", "; ")
	}
}

// putUp puts up all fences that there are to be had, the one that forbids the most of the
// others last.
func (p Policy) putUp() lacks {
	missing := lacks{}
	unix.Umask(0o077) // no other user of the machine reads what it writes
	missing.note(limits, errors.Join(noCores(), maxFile(p.MaxFile)))
	missing.note(closing, CloseOnExec())
	missing.note(capabilities, dropCapabilities())
	missing.note(noNewPrivs, unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0))
	missing.note(landlock, p.restrictFiles())
	missing.note(seccomp, filterCalls(uint32(os.Getpid()))) //nolint:gosec // not negative
	return missing
}

// noCores has the kernel write no core. A limit of 0 would do for files, but one of 1
// also keeps it from handing the core to a program.
func noCores() error {
	if unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{Cur: 1, Max: 1}) == nil {
		return nil
	}
	return unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{})
}

func maxFile(size uint64) error {
	if size == 0 {
		return nil
	}
	var now unix.Rlimit
	if err := unix.Getrlimit(unix.RLIMIT_FSIZE, &now); err == nil {
		size = min(size, now.Max)
	}
	return unix.Setrlimit(unix.RLIMIT_FSIZE, &unix.Rlimit{Cur: size, Max: size})
}

// keptCapabilities are those that root needs to read and write files of other users.
const keptCapabilities = 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH

// dropCapabilities takes what root may, but for files, which are another fence's.
// With no_new_privs, the program does not get them back.
func dropCapabilities() error {
	has, err := getCapabilities()
	if err != nil {
		return err
	}
	kept := [2]unix.CapUserData{{Effective: has[0].Effective & keptCapabilities, Permitted: has[0].Permitted & keptCapabilities}}
	return unix.Capset(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &kept[0])
}

func getCapabilities() (has [2]unix.CapUserData, err error) {
	err = unix.Capget(&unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}, &has[0])
	return has, err
}
