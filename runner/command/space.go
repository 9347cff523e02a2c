package command

import (
	"cmp"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"
)

const spaceInterval = time.Second

// leastSpace is what a file or folder takes at least, in bytes: so many of them are
// no way around the limit.
const leastSpace = 4096

// uncountable is more than any limit, with room for what is added to it.
const uncountable = 1 << 62

// watchSpace watches how much the temporary folder of the process holds.
func watchSpace(p *process, limitMB int) *watch {
	if limitMB <= 0 {
		return &watch{}
	}
	return newWatch(p, spaceInterval, func() bool {
		s := space{seen: make(map[uint64]bool)}
		if s.walk(p.tmp) != nil { // a folder that nobody may look into
			unlock(p.tmp)
			_ = s.walk(p.tmp)
		}
		s.opened(p.cmd.Process.Pid, p.tmp)
		return s.bytes > int64(limitMB)<<20
	})
}

// space adds up what files take on a disk, each once.
type space struct {
	bytes int64
	seen  map[uint64]bool // by the file's number
}

func (s *space) add(info fs.FileInfo) {
	stat, ok := info.Sys().(*syscall.Stat_t)
	if !ok || s.seen[stat.Ino] {
		return
	}
	s.seen[stat.Ino] = true
	s.bytes += max(stat.Blocks*512, leastSpace) // the kernel counts in 512 bytes
}

// walk adds what lies below a folder. What goes meanwhile takes no space; what lies so deep
// that no path leads to it cannot be counted, and takes all there is.
func (s *space) walk(dir string) error {
	return filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if entry != nil {
			info, infoErr := entry.Info()
			if infoErr == nil {
				s.add(info)
			}
			err = cmp.Or(err, infoErr)
		}
		switch {
		case errors.Is(err, syscall.ENAMETOOLONG):
			s.bytes = uncountable
			return filepath.SkipAll
		case os.IsPermission(err):
			return err
		}
		return nil
	})
}

// opened adds the files of the folder that a process has open, for it may have
// removed them. Where there is no /proc, it adds nothing.
func (s *space) opened(pid int, dir string) {
	fds := "/proc/" + strconv.Itoa(pid) + "/fd"
	entries, _ := os.ReadDir(fds)
	for _, entry := range entries {
		path := filepath.Join(fds, entry.Name())
		if file, err := os.Readlink(path); err != nil || !strings.HasPrefix(file, dir+"/") {
			continue
		}
		if info, err := os.Stat(path); err == nil {
			s.add(info)
		}
	}
}
