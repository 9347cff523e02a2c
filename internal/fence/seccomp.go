//go:build linux && (amd64 || arm64)

package fence

import (
	"slices"
	"unsafe"

	"golang.org/x/sys/unix"
)

// refused are the calls that a process has no use for: those that reach other
// processes, their memory and the kernel's settings, and those that let others
// reach it. Node needs none of them; a program that tries gets EPERM.
var refused = []uintptr{
	unix.SYS_PTRACE, unix.SYS_PROCESS_VM_READV, unix.SYS_PROCESS_VM_WRITEV, unix.SYS_PROCESS_MADVISE, unix.SYS_PROCESS_MRELEASE, unix.SYS_KCMP,
	unix.SYS_PIDFD_OPEN, unix.SYS_PIDFD_GETFD, unix.SYS_PIDFD_SEND_SIGNAL, unix.SYS_TKILL, unix.SYS_MIGRATE_PAGES, unix.SYS_MOVE_PAGES,
	unix.SYS_SETSID, unix.SYS_SETPGID, unix.SYS_IOPRIO_SET, unix.SYS_MEMFD_CREATE, unix.SYS_MEMFD_SECRET, unix.SYS_USERFAULTFD,

	unix.SYS_LISTEN, unix.SYS_ACCEPT, unix.SYS_ACCEPT4, unix.SYS_SOCKETPAIR,
	unix.SYS_SHMGET, unix.SYS_SHMAT, unix.SYS_MSGGET, unix.SYS_SEMGET, unix.SYS_MQ_OPEN,
	unix.SYS_MKNODAT, unix.SYS_SYMLINKAT, unix.SYS_OPEN_BY_HANDLE_AT, unix.SYS_FANOTIFY_INIT, unix.SYS_QUOTACTL,

	unix.SYS_BPF, unix.SYS_PERF_EVENT_OPEN, unix.SYS_IO_URING_SETUP, unix.SYS_IO_URING_ENTER, unix.SYS_IO_URING_REGISTER,
	unix.SYS_ADD_KEY, unix.SYS_REQUEST_KEY, unix.SYS_KEYCTL,
	unix.SYS_UNSHARE, unix.SYS_SETNS, unix.SYS_CHROOT, unix.SYS_PIVOT_ROOT, unix.SYS_MOUNT, unix.SYS_UMOUNT2, unix.SYS_MOUNT_SETATTR,
	unix.SYS_OPEN_TREE, unix.SYS_MOVE_MOUNT, unix.SYS_FSOPEN, unix.SYS_FSCONFIG, unix.SYS_FSMOUNT, unix.SYS_FSPICK,
	unix.SYS_INIT_MODULE, unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_REBOOT,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SYSLOG, unix.SYS_VHANGUP, unix.SYS_SETHOSTNAME, unix.SYS_SETDOMAINNAME,
	unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX, unix.SYS_CLOCK_ADJTIME, unix.SYS_PERSONALITY,
}

// Commands of calls that are refused with them: they have the kernel send a signal,
// or type at a terminal, or let a process outlive the worker.
var (
	refusedFcntl = []uint32{unix.F_SETOWN, unix.F_SETOWN_EX, unix.F_SETSIG}
	refusedIoctl = []uint32{0x8901 /* FIOSETOWN */, 0x8902 /* SIOCSPGRP */, unix.TIOCSTI, 0x541c /* TIOCLINUX */, unix.TIOCSCTTY}
	refusedPrctl = []uint32{unix.PR_SET_PDEATHSIG}
)

const (
	allow = unix.SECCOMP_RET_ALLOW
	deny  = unix.SECCOMP_RET_ERRNO | uint32(unix.EPERM)
	// absent has a C library go on as on a kernel that does not have the call yet.
	absent = unix.SECCOMP_RET_ERRNO | uint32(unix.ENOSYS)

	load   = unix.BPF_LD | unix.BPF_W | unix.BPF_ABS
	equal  = unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K
	least  = unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K
	anyBit = unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K
	and    = unix.BPF_ALU | unix.BPF_AND | unix.BPF_K
	give   = unix.BPF_RET | unix.BPF_K
)

// program is a filter that the kernel runs for each call. What it loads is the
// struct seccomp_data: the number of the call, the architecture at 4, arguments from 16 on.
type program []unix.SockFilter

func stmt(code uint16, k uint32) unix.SockFilter { return unix.SockFilter{Code: code, K: k} }

// loadArgument loads the lower half of an argument, which is all that the kernel
// reads of ids, flags and commands.
func loadArgument(n uint32) unix.SockFilter { return stmt(load, 16+8*n) }

// when returns what answers if the test holds, and goes on behind that if not.
func when(code uint16, k uint32, then ...unix.SockFilter) program {
	return append(program{{Code: code, K: k, Jf: uint8(len(then))}}, then...) //nolint:gosec // a few
}

// call answers a call with a body that always answers.
func call(nr uintptr, body ...program) program {
	return when(equal, uint32(nr), slices.Concat(body...)...) //nolint:gosec // a small number
}

func answer(what uint32) program { return program{stmt(give, what)} }

// only allows the call if an argument is one of some values.
func only(argument uint32, values ...uint32) program {
	p := program{loadArgument(argument)}
	for _, v := range values {
		p = append(p, when(equal, v, answer(allow)...)...)
	}
	return append(p, answer(deny)...)
}

// never allows the call unless an argument is one of some values.
func never(argument uint32, values []uint32) program {
	p := program{loadArgument(argument)}
	for _, v := range values {
		p = append(p, when(equal, v, answer(deny)...)...)
	}
	return append(p, answer(allow)...)
}

// setID are the bits of a file's mode that have others execute it as its user or group.
const setID = unix.S_ISUID | unix.S_ISGID

// changesMode are the calls that take a mode, by the argument that it is. mkdir needs none of
// this: the kernel gives a new folder no such bits.
var changesMode = map[uintptr]uint32{unix.SYS_FCHMOD: 1, unix.SYS_FCHMODAT: 2, unix.SYS_FCHMODAT2: 2}

// noSetID allows the call unless its mode has such a bit.
func noSetID(argument uint32) program {
	return slices.Concat(program{loadArgument(argument)}, when(anyBit, setID, answer(deny)...), answer(allow))
}

// opens is for a call that opens a file, whose mode counts if it may make it.
func opens(flags uint32) program {
	const makes = unix.O_CREAT | unix.O_TMPFILE&^unix.O_DIRECTORY
	return slices.Concat(program{loadArgument(flags), {Code: anyBit, K: makes, Jt: 1}}, answer(allow), noSetID(flags+1))
}

// filter is the whole of it, for the process pid.
func filter(pid uint32) program {
	p := slices.Concat(
		program{stmt(load, 4)}, program{{Code: equal, K: architecture, Jt: 1}}, answer(deny),
		program{stmt(load, 0)}, when(least, 0x40000000, answer(absent)...), // another way to the same calls
		call(unix.SYS_CLONE3, answer(absent)),
		call(unix.SYS_CLONE, program{loadArgument(0)}, when(anyBit, unix.CLONE_THREAD, answer(allow)...), answer(deny)),
		call(unix.SYS_SOCKET, socketBody()), call(unix.SYS_OPENAT, opens(2)),
		call(unix.SYS_OPENAT2, answer(absent)), // its mode is in memory, where no filter looks
		call(unix.SYS_SETPRIORITY, program{loadArgument(0), {Code: equal, K: unix.PRIO_PROCESS, Jt: 1}}, answer(deny), only(1, 0, pid)),
		call(unix.SYS_FCNTL, never(1, refusedFcntl)), call(unix.SYS_IOCTL, never(1, refusedIoctl)), call(unix.SYS_PRCTL, never(0, refusedPrctl)),
	)
	for _, nr := range []uintptr{unix.SYS_KILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO, unix.SYS_RT_TGSIGQUEUEINFO} {
		p = append(p, call(nr, only(0, pid))...)
	}
	for _, nr := range []uintptr{unix.SYS_PRLIMIT64, unix.SYS_SCHED_SETAFFINITY, unix.SYS_SCHED_SETSCHEDULER, unix.SYS_SCHED_SETPARAM, unix.SYS_SCHED_SETATTR} {
		p = append(p, call(nr, only(0, 0, pid))...)
	}
	for nr, argument := range changesMode {
		p = append(p, call(nr, noSetID(argument))...)
	}
	for _, nr := range slices.Concat(refused, refusedHere) {
		p = append(p, call(nr, answer(deny))...)
	}
	return slices.Concat(p, filterHere(), answer(allow))
}

// socketBody allows what speaks TCP and UDP, and asks the kernel for addresses.
func socketBody() program {
	return slices.Concat(
		program{loadArgument(0)}, when(equal, unix.AF_NETLINK, only(2, unix.NETLINK_ROUTE)...),
		program{{Code: equal, K: unix.AF_INET, Jt: 2}, {Code: equal, K: unix.AF_INET6, Jt: 1}}, answer(deny),
		program{loadArgument(1), stmt(and, 0xf)},
		program{{Code: equal, K: unix.SOCK_STREAM, Jt: 2}, {Code: equal, K: unix.SOCK_DGRAM, Jt: 1}}, answer(deny),
		only(2, 0, unix.IPPROTO_TCP, unix.IPPROTO_UDP),
	)
}

// filterCalls has the kernel refuse calls of this thread from now on.
func filterCalls(pid uint32) error {
	p := filter(pid)
	program := unix.SockFprog{Len: uint16(len(p)), Filter: &p[0]} //nolint:gosec // some hundreds
	//nolint:gosec // the kernel reads it during the call
	_, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, 0, uintptr(unsafe.Pointer(&program)))
	if errno != 0 {
		return errno
	}
	return nil
}
