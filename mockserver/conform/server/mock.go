package server

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/phxworker/phxworker/mockserver"
)

// The terms of the mock servers that are tried: a busy machine may hold up a renewal for a second, and the cases wait for their end.
const (
	mockLease         = 3 * time.Second
	mockClaimAck      = 2 * time.Second
	mockStatusTimeout = 3 * time.Second
	mockJanitor       = time.Second
)

// key signs the run tokens of all mock servers: to make one takes a second.
var key = sync.OnceValues(func() (*rsa.PrivateKey, error) { return rsa.GenerateKey(rand.Reader, 2048) })

// MockConfig is the configuration of a mock server whose terms the cases can wait for.
func MockConfig(mode mockserver.Mode) (mockserver.Config, error) {
	signing, err := key()
	if err != nil {
		return mockserver.Config{}, fmt.Errorf("make a key for run tokens: %w", err)
	}
	return mockserver.Config{
		Mode: mode, Key: signing, JanitorInterval: mockJanitor,
		Lease: mockLease, ClaimAck: mockClaimAck, StatusTimeout: mockStatusTimeout, StatusInterval: mockStatusTimeout / 4,
	}, nil
}

// Mock is a mock server of its own for each case, on the loopback address.
func Mock(mode mockserver.Mode) Servers {
	return Fresh(func(context.Context) (Target, func(), error) {
		cfg, err := MockConfig(mode)
		if err != nil {
			return Target{}, nil, err
		}
		m, err := mockserver.Start(cfg)
		if err != nil {
			return Target{}, nil, err
		}
		return MockTarget(m), func() { _ = m.Close() }, nil
	})
}

// MockTarget is a mock server as a target.
func MockTarget(m *mockserver.Server) Target {
	return Target{
		URL: m.URL(), Secret: m.Secret(), PublicKey: m.PublicKey(), Janitor: mockJanitor,
		Enqueue: func(_ context.Context, run mockserver.Run) (string, error) {
			if run.Key != "" && m.Mode() != mockserver.Extended {
				return "", fmt.Errorf("%w: it knows no keys", ErrCannot)
			}
			return m.Enqueue(run)
		},
		Cancel: func(_ context.Context, id, message string) error { return m.Cancel(id, message) },
		Notify: func(_ context.Context, id string, notice json.RawMessage) error { return m.Notify(id, notice) },
		Drain:  func(context.Context) error { m.DrainWorkers(); return nil },
	}
}
