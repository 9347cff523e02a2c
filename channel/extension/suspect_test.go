package extension_test

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// slowApp crashes over "slow" when it is told to.
type slowApp struct {
	*app
	crash chan struct{}
}

func (a *slowApp) Join(t *phoenix.Topic, p []byte) (phoenix.Channel, phoenix.Reply) {
	_, r := a.app.Join(t, p)
	return a, r
}

func (a *slowApp) Handle(p phoenix.Push) phoenix.Reply {
	if p.Event == "slow" {
		<-a.crash
		return phoenix.Crash("of its own")
	}
	return a.app.Handle(p)
}

// plug is a connection whose writes can be held up, as a full TCP window does.
type plug struct {
	net.Conn
	token chan struct{}
}

func (p *plug) Write(b []byte) (int, error) {
	p.token <- struct{}{}
	defer func() { <-p.token }()
	return p.Conn.Write(b)
}

// An extension whose push was never sent is not to blame for a crash.
func TestAPushThatWasNeverSentSwitchesNothingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &slowApp{app: &app{answers: `{"extensions":{"lease":{"v":1}}}`, knows: "run:renew big"}, crash: make(chan struct{})}
		endpoint, err := phoenix.NewEndpoint(phoenix.Config{App: a})
		require.NoError(t, err)
		listener := wstest.Serve(t, endpoint)
		log := new(book)
		set := extension.NewSet(slog.New(slog.NewTextHandler(log, nil)), "lease")
		conn := &plug{token: make(chan struct{}, 1)}
		socket, err := channel.Open(channel.Config{URL: "ws://app.test/socket", NetDial: func(ctx context.Context, n, addr string) (net.Conn, error) {
			c, err := listener.DialContext(ctx, n, addr)
			conn.Conn = c
			return conn, err
		}})
		require.NoError(t, err)
		defer func() {
			require.NoError(t, socket.Close())
			require.NoError(t, endpoint.Close())
		}()
		topic, err := socket.Join(t.Context(), "room:1", offer{set})
		require.NoError(t, err)
		other, err := socket.Join(t.Context(), "room:2", nil)
		require.NoError(t, err)
		join, _ := topic.Current()

		var pushes sync.WaitGroup
		pushes.Go(func() { _, _ = topic.Push(t.Context(), "slow", nil) })
		synctest.Wait()
		conn.token <- struct{}{}
		pushes.Go(func() { _, _ = other.Push(t.Context(), "big", strings.Repeat("x", 1000)) }) // of another run, on a slow line
		time.Sleep(time.Millisecond)
		var pushed error
		pushes.Go(func() { _, pushed = set.Push(t.Context(), join, "lease", "run:renew", nil) })
		time.Sleep(time.Millisecond)
		close(a.crash) // over "slow"
		time.Sleep(time.Second)
		<-conn.token
		pushes.Wait()
		time.Sleep(time.Minute)
		require.ErrorIs(t, pushed, channel.ErrNotSent)
		require.NotContains(t, a.saw(), "run:renew")
		require.Empty(t, set.Off(), "%s", log)
	})
}

// Guards against an extension that is given up for the life of the process because a
// channel crashed over something else: runs would be this worker's for good, and nobody's
// when it dies.
func TestACrashOverSomethingElseSwitchesNothingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &slowApp{app: &app{answers: `{"extensions":{"lease":{"v":1}}}`}, crash: make(chan struct{})}
		b := openTo(t, a, "lease")
		for range manyDoubts - 1 {
			var both sync.WaitGroup
			both.Go(func() { _, _ = b.topic.Push(t.Context(), "slow", nil) })
			synctest.Wait()
			both.Go(func() { require.ErrorIs(t, b.push(t, "lease", "run:renew"), channel.ErrCrashed) })
			synctest.Wait()
			a.crash <- struct{}{}
			both.Wait()
			b.isStillOffered(t)
		}
		require.ErrorIs(t, b.push(t, "lease", "run:renew"), channel.ErrCrashed)
		require.Equal(t, []string{"lease"}, b.set.Off(), "again and again is no chance")
	})
}

// What was answered before is known to the server, and crashes for some other reason.
func TestACrashOverWhatTheServerKnowsSwitchesNothingOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &app{answers: `{"extensions":{"lease":{"v":1}}}`, knows: "run:renew"}
		b := open(t, a, "lease")
		require.NoError(t, b.push(t, "lease", "run:renew"))
		a.becomes(a.answers, "")
		for range 2 * manyDoubts {
			require.ErrorIs(t, b.push(t, "lease", "run:renew"), channel.ErrCrashed)
			b.isStillOffered(t)
		}
	})
}

const manyDoubts = 5 // as in the package

func (b *bench) isStillOffered(t *testing.T) {
	t.Helper()
	time.Sleep(47 * time.Second) // never in the moment of a heartbeat, behind which a push would wait
	require.Empty(t, b.set.Off())
	join, _ := b.topic.Current()
	require.True(t, b.set.Agreed(join, "lease", nil), "with the join after it as well")
}
