//go:build linux && (amd64 || arm64)

package fence

import (
	"errors"
	"fmt"
	"os"
	"unsafe"

	"golang.org/x/sys/unix"
)

const (
	readFile   = unix.LANDLOCK_ACCESS_FS_READ_FILE
	readFolder = readFile | unix.LANDLOCK_ACCESS_FS_READ_DIR
	writeFile  = readFile | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_TRUNCATE
	// Neither links, nor sockets, nor devices.
	writeFolder = readFolder | writeFile | unix.LANDLOCK_ACCESS_FS_REMOVE_DIR | unix.LANDLOCK_ACCESS_FS_REMOVE_FILE |
		unix.LANDLOCK_ACCESS_FS_MAKE_DIR | unix.LANDLOCK_ACCESS_FS_MAKE_REG | unix.LANDLOCK_ACCESS_FS_REFER
	executeFile = readFile | unix.LANDLOCK_ACCESS_FS_EXECUTE
	onFiles     = executeFile | writeFile | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV // what a rule for a file may say
)

// handled returns what rights a version of Landlock knows.
func handled(version int) unix.LandlockRulesetAttr {
	attr := unix.LandlockRulesetAttr{Handled_access_fs: 1<<13 - 1}
	if version >= 2 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if version >= 3 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if version >= 4 {
		attr.Handled_access_net = unix.LANDLOCK_ACCESS_NET_BIND_TCP
	}
	if version >= 5 {
		attr.Handled_access_fs |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if version >= 6 {
		attr.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	return attr
}

// restrictFiles leaves the thread the files of the policy.
func (p Policy) restrictFiles() error {
	version, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, 0, 0, unix.LANDLOCK_CREATE_RULESET_VERSION)
	switch {
	case errors.Is(errno, unix.ENOSYS), errors.Is(errno, unix.EPERM): // EPERM is what some filters of calls say
		return errors.New("this kernel has none, or does not let it be used here; it came with Linux 5.13")
	case errors.Is(errno, unix.EOPNOTSUPP):
		return errors.New("it was switched off when the kernel was started (its lsm= option)")
	case errno != 0:
		return errno
	}
	rules := &ruleset{attr: handled(int(version))}
	//nolint:gosec // the kernel reads it during the call
	fd, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&rules.attr)), unsafe.Sizeof(rules.attr), 0)
	if errno != 0 {
		return fmt.Errorf("no rules can be made: %w", errno)
	}
	rules.fd = int(fd)
	defer func() { _ = unix.Close(rules.fd) }()
	for _, group := range []struct {
		paths  []string
		access uint64
	}{
		{systemFiles(), readFolder}, {p.Read, readFolder}, {p.Write, writeFolder}, {p.Execute, executeFile}, {[]string{os.DevNull}, writeFile},
	} {
		for _, path := range group.paths {
			if err := rules.allow(path, group.access); err != nil {
				return fmt.Errorf("%s: %w", path, err)
			}
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(rules.fd), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

type ruleset struct {
	fd   int
	attr unix.LandlockRulesetAttr
}

// allow gives rights on a path and what lies below. One that is missing needs none.
func (r *ruleset) allow(path string, access uint64) error {
	fd, err := unix.Open(path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil // what cannot be reached now needs no right
	}
	defer func() { _ = unix.Close(fd) }()
	var stat unix.Stat_t
	if err := unix.Fstat(fd, &stat); err != nil {
		return err
	}
	if stat.Mode&unix.S_IFMT != unix.S_IFDIR {
		access &= onFiles
	}
	rule := unix.LandlockPathBeneathAttr{Allowed_access: access & r.attr.Handled_access_fs, Parent_fd: int32(fd)} //nolint:gosec // a descriptor
	//nolint:gosec // the kernel reads it during the call
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(r.fd), unix.LANDLOCK_RULE_PATH_BENEATH, uintptr(unsafe.Pointer(&rule)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// systemFiles are what a program needs of the system to start, to speak TLS, and to
// find a host by its name: libraries, certificates, the resolver's settings, times of
// the world, and what the kernel tells of this process and this machine. None holds a secret.
func systemFiles() []string {
	return append([]string{
		"/lib", "/lib32", "/lib64", "/usr/lib", "/usr/lib32", "/usr/lib64", "/usr/local/lib", "/usr/local/lib64", "/nix/store", "/gnu/store",
		"/etc/ld.so.cache", "/etc/ld.so.preload", "/usr/share/nodejs", "/usr/share/icu", "/usr/share/locale", "/usr/share/zoneinfo", "/etc/localtime", "/etc/timezone",

		"/etc/ssl/certs", "/etc/ssl/openssl.cnf", "/etc/ssl/cert.pem", "/usr/local/ssl/openssl.cnf", "/usr/share/ca-certificates", "/usr/local/share/ca-certificates",
		"/etc/pki/tls/certs", "/etc/pki/tls/cert.pem", "/etc/pki/tls/openssl.cnf", "/etc/pki/ca-trust", "/etc/crypto-policies",

		"/etc/host.conf", "/etc/nsswitch.conf", "/etc/gai.conf", "/etc/services", "/etc/protocols", "/etc/passwd", "/run/systemd/resolve",

		"/proc/self", "/proc/cpuinfo", "/proc/loadavg", "/proc/meminfo", "/proc/stat", "/proc/uptime", "/proc/version", "/proc/version_signature",
		"/proc/sys/vm/overcommit_memory", "/proc/sys/vm/max_map_count", "/proc/sys/kernel/osrelease", "/proc/sys/net/core/somaxconn", "/sys/devices/system/cpu", "/sys/fs/cgroup",
		"/sys/kernel/mm/transparent_hugepage", "/dev/urandom", "/dev/random", "/dev/zero",
	}, Settings...)
}
