package command

import (
	"bufio"
	"errors"
	"io"
	"os"
	"syscall"
)

// maxPipe is the most that the kernel holds in a pipe of a user's process.
const maxPipe = 1 << 20

// pipeReader reads a pipe to the end of its process. That is not the end of the
// pipe: a grandchild may hold the other side for as long as it likes. Once a
// deadline on the pipe has passed, which says that the process is dead, the
// reader takes what is there and ends.
type pipeReader struct {
	file *os.File
	dead bool
	left int // of what a dead process may have left
}

func (r *pipeReader) Read(b []byte) (int, error) {
	if !r.dead {
		n, err := r.file.Read(b)
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			return n, err
		}
		r.dead, r.left = true, maxPipe
	}
	n, err := readAtOnce(r.file, b[:min(len(b), r.left)])
	r.left -= n
	if n == 0 && err == nil {
		err = io.EOF
	}
	return n, err
}

// readAtOnce reads what is in the pipe, past a deadline, and returns 0 rather
// than wait.
func readAtOnce(file *os.File, b []byte) (n int, err error) {
	conn, err := file.SyscallConn()
	if err != nil {
		return 0, err
	}
	controlErr := conn.Control(func(fd uintptr) {
		for {
			n, err = syscall.Read(int(fd), b)
			if !errors.Is(err, syscall.EINTR) {
				break
			}
		}
	})
	switch {
	case controlErr != nil:
		return 0, controlErr
	case errors.Is(err, syscall.EAGAIN):
		return 0, nil
	case err != nil:
		return 0, err
	}
	return n, nil
}

// lines cuts a process's output into lines.
type lines struct {
	in    *bufio.Reader
	limit func() int // of a line that may be a message
	long  []byte
}

func newLines(in io.Reader, limit func() int) *lines {
	return &lines{in: bufio.NewReaderSize(in, 32<<10), limit: limit}
}

// errTooLong says that a line which may be a message is over its limit.
var errTooLong = errors.New("the line is too long")

// next returns a line, which is good until the next call. Of one that cannot be
// a message, only the beginning is kept. An output that ends in the middle of a
// line ends that line.
func (l *lines) next() ([]byte, error) {
	line, err := l.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return ended(line, err)
	}
	limit := l.limit()
	message := line[0] == '{'
	if !message {
		limit = maxOutput
	}
	if cap(l.long) > 1<<20 {
		l.long = nil // one long line is no reason to hold as much for ever
	}
	l.long = append(l.long[:0], line...)
	for errors.Is(err, bufio.ErrBufferFull) {
		line, err = l.in.ReadSlice('\n')
		room := limit - len(l.long)
		if message && len(line) > room {
			return nil, errTooLong
		}
		l.long = append(l.long, line[:min(len(line), room)]...)
	}
	return ended(l.long, err)
}

func ended(line []byte, err error) ([]byte, error) {
	if err != nil && len(line) > 0 {
		err = nil
	}
	return line, err
}

// more reports whether there is more than the last line already.
func (l *lines) more() bool { return l.in.Buffered() > 0 }
