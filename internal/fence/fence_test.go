//go:build linux && (amd64 || arm64)

package fence

import (
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"syscall"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"golang.org/x/sys/unix"
)

// attempting is the variable that has the test program try what fences forbid, in the
// folder that it names, with the files of the folder beside it.
const attempting = "PHXWORKER_TEST_ATTEMPTS"

func TestMain(m *testing.M) {
	if own := os.Getenv(attempting); own != "" {
		attemptAll(own)
		return
	}
	goleak.VerifyTestMain(m)
}

// attempts are what a process can try against others without harm. They are errors of the
// kernel, "" where it let them.
var attempts = map[string]func(own string) error{
	"signal to the parent":             func(string) error { return unix.Kill(os.Getppid(), 0) },
	"signal to all":                    func(string) error { return unix.Kill(-1, 0) },
	"signal to the parent's group":     func(string) error { return unix.Kill(-groupOf(os.Getppid()), 0) },
	"signal to a thread of the parent": func(string) error { return unix.Tgkill(os.Getppid(), os.Getppid(), 0) },
	"signal by a descriptor":           func(string) error { return ignore(unix.PidfdOpen(os.Getppid(), 0)) },
	"signal by a socket":               signalBySocket,
	"signal to itself":                 func(string) error { return unix.Kill(os.Getpid(), 0) },
	"limit of the parent":              func(string) error { return unix.Prlimit(os.Getppid(), unix.RLIMIT_CPU, nil, &unix.Rlimit{}) },
	"priority of the parent":           samePriority,
	"environment of the parent":        func(string) error { return open("/proc/"+strconv.Itoa(os.Getppid())+"/environ", unix.O_RDONLY) },
	"memory of the parent":             func(string) error { return open("/proc/"+strconv.Itoa(os.Getppid())+"/mem", unix.O_RDWR) },
	"a file of others":                 func(own string) error { return open(own+"/../others", unix.O_RDONLY) },
	"a file of others, to write":       func(own string) error { return open(own+"/../others", unix.O_WRONLY) },
	"a new file of others":             func(own string) error { return open(own+"/../new", unix.O_WRONLY|unix.O_CREAT) },
	"a file of its own":                func(own string) error { return open(own+"/file", unix.O_RDWR|unix.O_CREAT) },
	"a link of its own to others":      func(own string) error { return unix.Symlink("../others", own+"/link") },
	"a file that is too large": func(own string) error {
		return errors.Join(os.WriteFile(own+"/large", nil, 0o600), os.Truncate(own+"/large", 1<<20+1))
	},
	"a file with its user's rights, later":          func(own string) error { return withRights(own, unix.Chmod) },
	"a file with its group's rights, by descriptor": func(own string) error { return withRights(own, chmodByDescriptor) },
	"a file with its user's rights, by a new call": func(own string) error {
		return withRights(own, func(path string, mode uint32) error {
			return unix.Fchmodat(unix.AT_FDCWD, path, mode, unix.AT_SYMLINK_NOFOLLOW)
		})
	},
	"a new file with its user's rights": func(own string) error {
		return ignore(unix.Open(own+"/new", unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_CLOEXEC, 0o4755))
	},
	"a new file with rights that nobody sees": func(own string) error {
		return ignore(unix.Openat2(unix.AT_FDCWD, own+"/hidden", &unix.OpenHow{Flags: unix.O_WRONLY | unix.O_CREAT, Mode: 0o4755}))
	},
	"a file for others":           fileForOthers,
	"a process":                   func(string) error { return exec.Command("/bin/true").Run() },
	"a session of its own":        func(string) error { return ignore(unix.Setsid()) },
	"a socket in the file system": func(string) error { return ignore(unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM, 0)) },
	"a socket that listens":       func(string) error { return unix.Listen(tcp(), 1) },
	"a socket at a port": func(string) error {
		return unix.Bind(tcp(), &unix.SockaddrInet4{Port: 47213, Addr: [4]byte{127, 0, 0, 1}})
	},
	"a socket of another protocol": func(string) error { return socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_MPTCP) },
	"a socket to devices":          func(string) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_KOBJECT_UEVENT) },
	"what the parent had open":     func(string) error { return ignore(unix.FcntlInt(leftOpen, unix.F_GETFD, 0)) },
	"a core":                       func(string) error { return limitAbove(unix.RLIMIT_CORE, 1) },
	"a host":                       func(string) error { return socket(unix.AF_INET6, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0) },
	"a host by TCP":                func(string) error { return socket(unix.AF_INET, unix.SOCK_STREAM, unix.IPPROTO_TCP) },
	"a host by UDP":                func(string) error { return socket(unix.AF_INET, unix.SOCK_DGRAM, unix.IPPROTO_UDP) },
	"the addresses":                func(string) error { return socket(unix.AF_NETLINK, unix.SOCK_RAW, unix.NETLINK_ROUTE) },
}

func socket(domain, kind, protocol int) error { return ignore(unix.Socket(domain, kind, protocol)) }

func ignore[T any](_ T, err error) error { return err }

func open(path string, flags int) error {
	fd, err := unix.Open(path, flags|unix.O_CLOEXEC, 0o600)
	if err == nil {
		_ = unix.Close(fd)
	}
	return err
}

// withRights changes the rights of a new file to those that have others execute it as this
// user or group.
func withRights(own string, chmod func(path string, mode uint32) error) error {
	path := own + "/program"
	if err := errors.Join(os.WriteFile(path, nil, 0o600), unix.Chmod(path, 0o755)); err != nil {
		return nil //nolint:nilerr // what is not to fail did: the test sees that nothing was refused
	}
	return errors.Join(chmod(path, 0o4755), chmod(path, 0o2755))
}

func chmodByDescriptor(path string, mode uint32) error {
	fd, err := unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0o6000) // without O_CREAT, nobody reads the rights
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	return unix.Fchmod(fd, mode)
}

// fileForOthers makes a file with rights for everybody.
func fileForOthers(own string) error {
	_ = os.WriteFile(own+"/for others", nil, 0o666)
	info, err := os.Stat(own + "/for others")
	if err == nil && info.Mode()&0o077 == 0 {
		return unix.EPERM
	}
	return err
}

func groupOf(pid int) int {
	group, _ := unix.Getpgid(pid)
	return group
}

// samePriority gives the parent the one that it has.
func samePriority(string) error {
	twenty, err := unix.Getpriority(unix.PRIO_PROCESS, os.Getppid()) // the kernel counts down from 20
	if err != nil {
		return err
	}
	return unix.Setpriority(unix.PRIO_PROCESS, os.Getppid(), 20-twenty)
}

func tcp() int {
	fd, _ := unix.Socket(unix.AF_INET, unix.SOCK_STREAM, 0)
	return fd
}

// signalBySocket has the kernel signal the parent when there is something to read.
func signalBySocket(string) error {
	return ignore(unix.FcntlInt(uintptr(tcp()), unix.F_SETOWN, os.Getppid()))
}

func limitAbove(resource int, bound uint64) error {
	if limitOf(resource) <= bound {
		return unix.EPERM
	}
	return nil
}

func attemptAll(own string) {
	results := make(map[string]string)
	for name, try := range attempts {
		if err := try(own); err != nil {
			results[name] = err.Error()
			if errno, ok := errors.AsType[syscall.Errno](err); ok {
				results[name] = unix.ErrnoName(errno)
			}
		}
	}
	_ = json.NewEncoder(os.Stdout).Encode(results)
}

// attempt has a process try everything, as another user if there is one, and returns how
// each ended.
func attempt(t *testing.T, wrap bool, as *syscall.Credential) map[string]string {
	t.Helper()
	dir := t.TempDir()
	own := filepath.Join(dir, "own")
	require.NoError(t, os.Mkdir(own, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "others"), nil, 0o600))
	if as != nil {
		for _, path := range []string{own, filepath.Join(dir, "others"), dir} {
			require.NoError(t, os.Chown(path, int(as.Uid), int(as.Gid)))
		}
		require.NoError(t, os.Chmod(filepath.Dir(dir), 0o755))
	}
	secret, err := os.Open(os.DevNull)
	require.NoError(t, err)
	defer secret.Close()
	cmd := exec.CommandContext(t.Context(), self)
	cmd.Env, cmd.Dir, cmd.Stderr = []string{attempting + "=" + own}, own, os.Stderr
	cmd.ExtraFiles = slices.Repeat([]*os.File{secret}, leftOpen-2)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL, Credential: as}
	if wrap {
		policy := Policy{Write: []string{own}, Execute: append(mapped(), self), MaxFile: 1 << 20, Require: true}
		require.NoError(t, policy.Wrap(cmd))
	}
	out, err := cmd.Output()
	require.NoError(t, err)
	results := make(map[string]string)
	require.NoError(t, json.Unmarshal(out, &results), string(out))
	return results
}

// othersReach reports whether every user may go to a file.
func othersReach(path string) bool {
	for dir := filepath.Dir(path); ; dir = filepath.Dir(dir) {
		if info, err := os.Stat(dir); err != nil || info.Mode()&0o001 == 0 {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

// need skips a test on machines without all fences. CI's has them.
func need(t *testing.T) {
	t.Helper()
	for _, s := range Down(Probe(t.Context())) {
		require.Empty(t, os.Getenv("CI"), s.Why)
		t.Skip(s.Name + ": " + s.Why)
	}
}

var fenced = map[string]string{
	"signal to the parent": "EPERM", "signal to all": "EPERM", "signal to the parent's group": "EPERM", "signal to a thread of the parent": "EPERM",
	"signal by a descriptor": "EPERM", "signal by a socket": "EPERM", "limit of the parent": "EPERM", "priority of the parent": "EPERM",
	"environment of the parent": "EACCES", "memory of the parent": "EACCES",
	"a file of others": "EACCES", "a file of others, to write": "EACCES", "a new file of others": "EACCES",
	"a link of its own to others": "EPERM", "a file that is too large": "EFBIG",
	"a process": "EPERM", "a session of its own": "EPERM", "a socket in the file system": "EPERM", "a socket that listens": "EPERM", "a socket at a port": "EACCES",
	"a socket of another protocol": "EPERM", "a socket to devices": "EPERM",
	"a file with its user's rights, later": "EPERM", "a file with its group's rights, by descriptor": "EPERM", "a file with its user's rights, by a new call": "EPERM",
	"a new file with its user's rights": "EPERM", "a new file with rights that nobody sees": "ENOSYS", "a file for others": "EPERM",
	"what the parent had open": "EBADF", "a core": "EPERM",
}

func TestAProcessWithinTheFencesReachesNothing(t *testing.T) {
	need(t)
	t.Run("without them it does", func(t *testing.T) { // else the rest would show nothing
		results := attempt(t, false, nil)
		for name := range fenced {
			if !slices.Contains([]string{"a session of its own", "a core", "a socket of another protocol", "a file for others", "a file with its user's rights, by a new call"}, name) { // it leads a group, and there may be a limit, a umask, no such protocol, or no such call
				require.NotContains(t, results, name)
			}
		}
	})
	t.Run("as this user", func(t *testing.T) { require.Equal(t, fenced, attempt(t, true, nil)) })
	t.Run("as another", func(t *testing.T) {
		if os.Getuid() != 0 {
			t.Skip("only root can be another user")
		}
		if !othersReach(filepath.Join(os.TempDir(), "any")) { //nolint:usetesting // where go test puts its folders
			t.Skip("another user cannot reach the folder of temporary files")
		}
		require.Equal(t, fenced, attempt(t, true, &syscall.Credential{Uid: 65534, Gid: 65534}))
	})
}

func TestAFenceThatIsDownSaysWhy(t *testing.T) {
	states := allDown("of the weather")
	require.Len(t, Down(states), len(Names()))
	require.NoError(t, Require(nil))
	require.EqualError(t, Require([]State{{Name: Files, Why: "a"}, {Name: Signals, Why: "b"}, {Name: Cores, Up: true}, {Name: Sockets, Why: "b"}}),
		"fences around the processes of the engine are missing: files (a); signals, sockets (b)")
	for _, s := range Probe(t.Context()) {
		require.Contains(t, Names(), s.Name)
		require.Equal(t, s.Up, s.Why == "", s)
	}
}

// Guards against a program that is started all the same. Landlock can be put up
// sixteen times.
func TestNothingIsStartedWithoutARequiredFence(t *testing.T) {
	need(t)
	for times, starts := range map[int]bool{16: true, 17: false} {
		cmd := exec.CommandContext(t.Context(), self)
		cmd.Args, cmd.Env = []string{probeName}, []string{}
		for range times {
			require.NoError(t, Policy{Require: true, Execute: append(mapped(), self)}.Wrap(cmd))
		}
		out, err := cmd.CombinedOutput()
		require.Equal(t, starts, err == nil, string(out))
		if !starts {
			require.Contains(t, string(out), "phxworker: no process is started without all fences: Landlock: argument list too long")
		}
	}
}

// Whoever starts a program may give it no arguments, not even its name. Kernels from 5.18 on give it an empty one.
func TestAProgramIsStartedWithoutAName(t *testing.T) {
	arguments := os.Args
	defer func() { os.Args = arguments }()
	os.Args = nil
	require.NotPanics(t, become)
}

func TestMappedFiles(t *testing.T) {
	const maps = "00400000-00452000 r-xp 00000000 08:02 17 /usr/bin/my node\n00452000-00453000 rw-p 00000000 08:02 17 /usr/bin/my node\n" +
		"7f00-7f01 rw-p 00000000 00:00 0\n7ffe-7fff rw-p 00000000 00:00 0          [stack]\n7f02-7f03 r--p 00000000 08:02 18     /lib/libc.so.6\n"
	require.Equal(t, []string{"/usr/bin/my node", "/lib/libc.so.6"}, MappedIn(maps))
}
