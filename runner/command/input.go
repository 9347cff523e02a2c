package command

import (
	"bytes"
	"encoding/json"
	"slices"
	"time"
)

// load tells the process to load modules that it has not loaded.
func (p *process) load(modules []string, timeout time.Duration) error {
	missing := slices.DeleteFunc(slices.Clone(modules), func(m string) bool { return slices.Contains(p.loaded, m) })
	if len(missing) == 0 {
		return nil
	}
	p.loaded = append(p.loaded, missing...)
	line, err := encode(struct {
		Type    string   `json:"type"`
		Modules []string `json:"modules"`
	}{"warm", missing})
	if err != nil {
		return err
	}
	_ = p.stdin.SetWriteDeadline(time.Now().Add(timeout))
	if err := p.write(line); err != nil {
		return err
	}
	return p.stdin.SetWriteDeadline(time.Time{})
}

// write writes a line to the process.
func (p *process) write(line []byte) error {
	_, err := p.stdin.Write(line)
	return err
}

// encode returns a message for a process: a line of JSON, also for readers that
// end a line at U+2028 and U+2029, as Node's does from 24 on. In JSON these stand
// in strings only, and the encoder leaves them in those that were JSON before.
func encode(message any) ([]byte, error) {
	var line bytes.Buffer
	encoder := json.NewEncoder(&line)
	encoder.SetEscapeHTML(false)
	err := encoder.Encode(message)
	text := line.Bytes()
	for raw, escaped := range map[string]string{"\u2028": `\u2028`, "\u2029": `\u2029`} {
		if bytes.Contains(text, []byte(raw)) {
			text = bytes.ReplaceAll(text, []byte(raw), []byte(escaped))
		}
	}
	return text, err
}
