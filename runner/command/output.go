package command

import (
	"errors"
	"strings"
)

// readMessages reads the stdout of the process until it ends, and passes on what
// is of a run.
func (p *process) readMessages() {
	defer close(p.messages)
	defer func() { _ = p.stdout.Close() }()
	in := newLines(&pipeReader{file: p.stdout}, func() int { return int(p.maxLine.Load()) })
	for {
		line, err := in.next()
		var m message
		switch {
		case errors.Is(err, errTooLong):
			m = message{kind: tooLong}
		case err != nil:
			return
		default:
			m = parse(line)
		}
		m.more = m.kind == end && in.more()
		if !p.take(m) {
			return
		}
	}
}

// take passes a message on, or judges one that is of no run. It reports whether
// there is a point in reading further.
func (p *process) take(m message) bool {
	was := p.advance(m.kind)
	switch {
	case was == busy:
		select {
		case p.messages <- m:
			return m.kind != tooLong
		case <-p.left:
			return false
		}
	case m.kind == output:
		p.log.Debug("an engine process without a run printed a line", "pid", p.cmd.Process.Pid, "bytes", len(m.text))
	case was == starting && m.kind == ready:
		p.versions = m.versions()
		close(p.ready)
	default:
		p.mu.Lock()
		p.fault = "it sent a message of type " + m.kind.String() + " while it had no run"
		if was == starting {
			p.fault = "its first message is of type " + m.kind.String() + ", not ready"
		}
		p.mu.Unlock()
		p.kill()
		return false
	}
	return true
}

// advance moves the process to the stage that a message of this kind means, and
// returns the one it was in. An end is the last message of its run even before
// the run knows of it: what comes next cannot be taken for the next run's.
func (p *process) advance(k kind) (was stage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	was = p.stage
	if (was == starting && k == ready) || (was == busy && k == end) {
		p.stage = idle
	}
	return was
}

// readErrors keeps the tail of the process's stderr. Before it had a run there is
// no user's data in it, so the worker's log may have it.
func (p *process) readErrors() {
	defer func() { _ = p.stderr.Close() }()
	in := &pipeReader{file: p.stderr}
	buf := make([]byte, 4<<10)
	for {
		n, err := in.Read(buf)
		if n > 0 {
			p.tail.add(buf[:n])
			if p.unused() {
				text := strings.ToValidUTF8(strings.TrimSpace(string(buf[:n])), "\uFFFD")
				p.log.Debug("an engine process that had no run yet wrote to stderr", "pid", p.cmd.Process.Pid, "text", text)
			}
		}
		if err != nil {
			return
		}
	}
}
