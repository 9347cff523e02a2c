package mockserver

import (
	"io"
	"log/slog"
)

// TB is what [NewTest] uses of a [testing.TB]. It is named here so that programs which import
// this package do not have package testing linked into them.
type TB interface {
	Helper()
	Cleanup(func())
	Fatalf(format string, args ...any)
	Output() io.Writer
}

// NewTest is [Start] for tests: the server listens on a free port of loopback, logs to the
// test unless Config.Logger says otherwise, and is closed when the test ends. A server that cannot start
// ends the test.
func NewTest(t TB, cfg Config) *Server {
	t.Helper()
	if cfg.Logger == nil {
		cfg.Logger = slog.New(slog.NewTextHandler(t.Output(), nil))
	}
	s, err := Start(cfg)
	if err != nil {
		t.Fatalf("%v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Fatalf("close the mock server: %v", err)
		}
	})
	return s
}
