package channel

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel/frame"
)

// outcome is what an asynchronous call returned.
type outcome[T any] struct {
	value T
	err   error
}

// async runs a call on a goroutine of its own.
func async[T any](call func() (T, error)) <-chan outcome[T] {
	done := make(chan outcome[T], 1)
	go func() {
		value, err := call()
		done <- outcome[T]{value, err}
	}()
	return done
}

func asyncJoin(s *Socket, topic string, payload any) <-chan outcome[*Topic] {
	return async(func() (*Topic, error) { return s.Join(context.Background(), topic, payload) })
}

func asyncPush(topic *Topic, event string, payload any) <-chan outcome[Reply] {
	return async(func() (Reply, error) { return topic.Push(context.Background(), event, payload) })
}

// joined returns a socket with one topic joined, and the server's end of it.
func joined(t *testing.T, s *server, cfg Config) (*Socket, *Topic, *peer, frame.Frame) {
	t.Helper()
	socket := s.open(cfg)
	p := s.accept()
	joining := asyncJoin(socket, "room:1", nil)
	f := p.join("room:1")
	got := <-joining
	require.NoError(t, got.err)
	return socket, got.value, p, f
}
