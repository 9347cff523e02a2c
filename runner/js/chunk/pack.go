package chunk

import (
	"bufio"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/andybalholm/brotli"
)

// mostPacked bounds what is made of bytes at once, in bytes.
const mostPacked = 64 << 20

var errTooMuch = fmt.Errorf("what comes of it is over %d bytes", mostPacked)

// unpacks reports whether a compression is known.
func unpacks(encoding string) bool {
	switch strings.ToLower(encoding) {
	case "gzip", "x-gzip", "deflate", "br":
		return true
	}
	return false
}

// unpacker undoes a compression, by the names of HTTP and of zlib. It reads the beginning of the source.
func unpacker(encoding string, source io.Reader) (io.Reader, error) {
	switch strings.ToLower(encoding) {
	case "gzip", "x-gzip":
		return gunzip(source), nil
	case "deflate":
		return inflate(source)
	case "inflate":
		return zlib.NewReader(source)
	case "raw":
		return flate.NewReader(source), nil
	case "br":
		return &unbothered{brotli.NewReader(source)}, nil
	case "any":
		start := make([]byte, 2)
		n, err := io.ReadFull(source, start)
		if n == 0 {
			return nil, err
		}
		source = io.MultiReader(bytes.NewReader(start[:n]), source)
		if start[0] == 0x1f {
			return gunzip(source), nil
		}
		return zlib.NewReader(source)
	}
	return nil, fmt.Errorf("no compression is called %q", encoding)
}

// unbothered ends where brotli does, whatever is behind it.
type unbothered struct{ *brotli.Reader }

func (u *unbothered) Read(p []byte) (int, error) {
	n, err := u.Reader.Read(p)
	if err != nil && err.Error() == "brotli: excessive input" { // there is no variable for it
		err = io.EOF
	}
	return n, err
}

// members reads gzip as Node does: one member after the other, until there is nothing more, or a zero.
type members struct {
	source *bufio.Reader
	member *gzip.Reader // nil before the first
	err    error        // since all of it was read
}

func gunzip(source io.Reader) io.Reader { return &members{source: bufio.NewReader(source)} }

func (m *members) Read(p []byte) (int, error) {
	for m.err == nil {
		if m.member == nil {
			m.err = m.next()
			continue
		}
		n, err := m.member.Read(p)
		if errors.Is(err, io.EOF) {
			err = m.next()
		}
		m.err = err
		if n > 0 {
			return n, nil
		}
	}
	return 0, m.err
}

var errMethod = errors.New("gzip: unknown method")

// next begins with the next member.
func (m *members) next() error {
	start, err := m.source.Peek(3)
	if len(start) < 3 && !errors.Is(err, io.EOF) {
		return err
	}
	magic := []byte{0x1f, 0x8b}
	switch {
	case len(start) == 0, m.member != nil && start[0] == 0:
		return io.EOF
	case len(start) == 1: // Node compares nothing before there are two
		return io.ErrUnexpectedEOF
	case !bytes.HasPrefix(magic, start[:min(len(start), 2)]):
		return gzip.ErrHeader
	case len(start) == 3 && start[2] != 8:
		return errMethod
	}
	if m.member != nil {
		err = m.member.Reset(m.source)
	} else {
		m.member, err = gzip.NewReader(m.source)
	}
	if err == nil {
		m.member.Multistream(false)
	}
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// inflate reads deflate with and without the header of zlib, since servers send both.
func inflate(source io.Reader) (io.Reader, error) {
	start := make([]byte, 1)
	if _, err := io.ReadFull(source, start); err != nil {
		return nil, err
	}
	whole := io.MultiReader(bytes.NewReader(start), source)
	if start[0]&0x0f == 8 {
		return zlib.NewReader(whole)
	}
	return flate.NewReader(whole), nil
}

// pack compresses bytes at a level of zlib's, -1 for what is usual.
func pack(kind string, data []byte, level int) ([]byte, error) {
	var all bytes.Buffer
	var to io.WriteCloser
	var err error
	switch kind {
	case "gzip":
		to, err = gzip.NewWriterLevel(&all, level)
	case "deflate":
		to, err = zlib.NewWriterLevel(&all, level)
	case "raw":
		to, err = flate.NewWriter(&all, level)
	case "br":
		to = brotli.NewWriterLevel(&all, max(level, 0))
	default:
		err = fmt.Errorf("no compression is called %q", kind)
	}
	if err != nil {
		return nil, err
	}
	if _, err := to.Write(data); err != nil {
		return nil, err
	}
	if err := to.Close(); err != nil {
		return nil, err
	}
	return all.Bytes(), nil
}

// unpack undoes a compression of bytes.
func unpack(kind string, data []byte) ([]byte, error) {
	all, err := io.ReadAll(io.LimitReader(&lazy{open: func() (io.Reader, error) { return unpacker(kind, bytes.NewReader(data)) }}, mostPacked+1))
	if err == nil && len(all) > mostPacked {
		err = errTooMuch
	}
	return all, err
}

// converted compresses bytes in base64, or undoes that, and answers as JSON. partly lets them end too early.
func converted(operation, kind, text, level string, partly bool) (any, error) {
	data, err := base64.StdEncoding.DecodeString(text)
	if err != nil {
		return nil, err
	}
	var made []byte
	if operation == "pack" {
		var n int
		if n, err = strconv.Atoi(level); err == nil {
			made, err = pack(kind, data, n)
		}
	} else if made, err = unpack(kind, data); len(data) == 0 && err == nil && !partly {
		err = &packError{io.ErrUnexpectedEOF}
	}
	var answer Answer
	if partly && errors.Is(err, io.ErrUnexpectedEOF) {
		err = nil
	}
	if err != nil {
		answer.Error = inNodesWords(err)
	}
	answer.Body = base64.StdEncoding.EncodeToString(made)
	told, err := json.Marshal(answer)
	return string(told), err
}

// packError is for bytes that are not compressed as they should be.
type packError struct{ error }

func (e *packError) Unwrap() error { return e.error }

func (e *packError) inNodesWords() map[string]any {
	switch {
	case errors.Is(e, io.ErrUnexpectedEOF):
		return map[string]any{"message": "unexpected end of file", "errno": -5, "code": "Z_BUF_ERROR"}
	case errors.Is(e, errMethod):
		return map[string]any{"message": "unknown compression method", "errno": -3, "code": "Z_DATA_ERROR"}
	case errors.Is(e, gzip.ErrHeader), errors.Is(e, zlib.ErrHeader):
		return map[string]any{"message": "incorrect header check", "errno": -3, "code": "Z_DATA_ERROR"}
	case errors.Is(e, gzip.ErrChecksum), errors.Is(e, zlib.ErrChecksum):
		return map[string]any{"message": "incorrect data check", "errno": -3, "code": "Z_DATA_ERROR"}
	}
	return map[string]any{"message": "invalid compressed data", "errno": -3, "code": "Z_DATA_ERROR"}
}
