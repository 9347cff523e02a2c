package fence

import (
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// CloseOnExec has no process that this one starts, or becomes, inherit a descriptor but
// the first three and what it is given on purpose.
func CloseOnExec() error {
	if closeRange() == nil {
		return nil
	}
	names, err := os.ReadDir("/dev/fd")
	if err != nil {
		return err
	}
	for _, name := range names {
		if fd, err := strconv.Atoi(name.Name()); err == nil && fd > 2 {
			unix.CloseOnExec(fd)
		}
	}
	return nil
}
