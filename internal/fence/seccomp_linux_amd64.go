package fence

import (
	"slices"

	"golang.org/x/sys/unix"
)

const architecture = unix.AUDIT_ARCH_X86_64

// refusedHere are further calls of this architecture, most of them older ways to others.
var refusedHere = []uintptr{
	unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_SYMLINK, unix.SYS_MKNOD, unix.SYS_MODIFY_LDT, unix.SYS_IOPL, unix.SYS_IOPERM,
	unix.SYS_USELIB, unix.SYS_CREATE_MODULE, unix.SYS_LOOKUP_DCOOKIE,
}

// filterHere are the older ways to make files and change their modes.
func filterHere() program {
	return slices.Concat(call(unix.SYS_OPEN, opens(1)), call(unix.SYS_CREAT, noSetID(1)), call(unix.SYS_CHMOD, noSetID(1)))
}
