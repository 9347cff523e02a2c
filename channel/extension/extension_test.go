package extension_test

import (
	"bytes"
	"context"
	"encoding/json"
	"log/slog"
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/channel/extension"
	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// app is a server with one topic, which crashes over what it does not know.
type app struct {
	mu      sync.Mutex
	answers string   // to a join
	knows   string   // events, with spaces between
	joins   []string // the payloads
	events  []string
}

func (a *app) Connect(url.Values) (string, error) { return "", nil }

func (a *app) Join(_ *phoenix.Topic, payload []byte) (phoenix.Channel, phoenix.Reply) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.joins = append(a.joins, string(payload))
	return a, phoenix.OK([]byte(a.answers))
}

func (a *app) Handle(p phoenix.Push) phoenix.Reply {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, p.Event)
	if !strings.Contains(a.knows, p.Event) {
		return phoenix.Crash("no clause")
	}
	return phoenix.OK([]byte(`{}`))
}

func (a *app) Left() {}

func (a *app) becomes(answers, knows string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.answers, a.knows = answers, knows
}

func (a *app) payloads() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.joins...)
}

func (a *app) saw() []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]string(nil), a.events...)
}

// bench is a client on the topic of an app.
type bench struct {
	*app

	set    *extension.Set
	socket *channel.Socket
	topic  *channel.Topic
	log    *book
}

func open(t *testing.T, a *app, names ...string) *bench {
	t.Helper()
	b := openTo(t, a, names...)
	b.app = a
	return b
}

func openTo(t *testing.T, server phoenix.App, names ...string) *bench {
	t.Helper()
	endpoint, err := phoenix.NewEndpoint(phoenix.Config{App: server})
	require.NoError(t, err)
	listener := wstest.Serve(t, endpoint)
	b := &bench{log: new(book)}
	b.set = extension.NewSet(slog.New(slog.NewTextHandler(b.log, nil)), names...)
	socket, err := channel.Open(channel.Config{URL: "ws://app.test/socket", NetDial: listener.DialContext})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, socket.Close())
		require.NoError(t, endpoint.Close())
	})
	b.socket = socket
	b.topic, err = socket.Join(t.Context(), "room:1", offer{b.set})
	require.NoError(t, err)
	return b
}

// book is a log that may be read while it is written.
type book struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (b *book) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *book) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// offer is a join payload that is made anew at each join.
type offer struct{ set *extension.Set }

func (o offer) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Extensions map[string]int `json:"extensions,omitempty"`
	}{o.set.Offer("lease", "release")})
}

func (b *bench) push(t *testing.T, name, event string) error {
	t.Helper()
	join, _ := b.topic.Current()
	_, err := b.set.Push(t.Context(), join, name, event, nil)
	return err
}

func TestWhatBothNameIsAgreedOn(t *testing.T) {
	tests := []struct {
		name, answers string
		agreed        bool
	}{
		{name: "both", answers: `{"extensions":{"lease":{"v":1,"duration_ms":5}}}`, agreed: true},
		{name: "a server that knows none", answers: `{}`},
		{name: "a server that answers nothing", answers: `null`},
		{name: "another", answers: `{"extensions":{"release":{"v":1}}}`},
		{name: "a later version", answers: `{"extensions":{"lease":{"v":2}}}`},
		{name: "no version", answers: `{"extensions":{"lease":{}}}`},
		{name: "not offered", answers: `{"extensions":{"status":{"v":1},"lease":null}}`},
		{name: "terms of another kind", answers: `{"extensions":{"lease":{"v":1,"duration_ms":"five"}}}`},
		{name: "no object", answers: `{"extensions":[1]}`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := open(t, &app{answers: tt.answers, knows: "run:renew"}, "lease", "release")
				require.Equal(t, []string{`{"extensions":{"lease":1,"release":1}}`}, b.payloads())
				join, _ := b.topic.Current()
				var terms struct {
					DurationMS int `json:"duration_ms"`
				}
				require.Equal(t, tt.agreed, b.set.Agreed(join, "lease", &terms))
				require.False(t, b.set.Agreed(join, "status", nil), "never offered")
				if tt.agreed {
					require.Equal(t, 5, terms.DurationMS)
					require.NoError(t, b.push(t, "lease", "run:renew"))
					return
				}
				if !strings.Contains(tt.answers, "duration_ms") { // else the version is fine, only its terms are not
					require.ErrorIs(t, b.push(t, "lease", "run:renew"), extension.ErrNotAgreed)
					require.Empty(t, b.saw())
				}
			})
		})
	}
}

func TestNothingIsOfferedWithoutExtensions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, &app{answers: `{"extensions":{"lease":{"v":1}}}`})
		require.Equal(t, []string{`{}`}, b.payloads())
		require.ErrorIs(t, b.push(t, "lease", "run:renew"), extension.ErrNotAgreed)
		var none *extension.Set
		require.Nil(t, none.Offer("lease"))
		require.Empty(t, none.Off())
	})
}

// Guards against an event that waited for a reconnect and reaches a server that
// knows nothing of it.
func TestAnAgreementEndsWithItsJoin(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, &app{answers: `{"extensions":{"lease":{"v":1}}}`, knows: "run:renew crash"}, "lease")
		before, _ := b.topic.Current()
		b.becomes(`{}`, "")
		_, err := b.topic.Push(t.Context(), "unknown", nil) // the topic crashes and is joined again
		require.ErrorIs(t, err, channel.ErrCrashed)
		time.Sleep(time.Minute)
		require.ErrorIs(t, b.push(t, "lease", "run:renew"), extension.ErrNotAgreed)
		_, err = b.set.Push(t.Context(), before, "lease", "run:renew", nil)
		require.ErrorIs(t, err, channel.ErrNotSent)
		require.Equal(t, []string{"unknown"}, b.saw())
		require.Empty(t, b.set.Off(), "the crash was over something else")
	})
}

func TestACrashSwitchesAnExtensionOffForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := open(t, &app{answers: `{"extensions":{"lease":{"v":1},"release":{"v":1}}}`, knows: "run:release"}, "lease", "release")
		require.ErrorIs(t, b.push(t, "lease", "run:renew"), channel.ErrCrashed)
		time.Sleep(time.Minute)
		require.ErrorIs(t, b.push(t, "lease", "run:renew"), extension.ErrNotAgreed)
		require.NoError(t, b.push(t, "release", "run:release"))
		require.Equal(t, []string{"run:renew", "run:release"}, b.saw())
		_, err := b.topic.Push(t.Context(), "unknown", nil)
		require.ErrorIs(t, err, channel.ErrCrashed)
		time.Sleep(time.Minute)
		require.Equal(t, `{"extensions":{"release":1}}`, b.payloads()[1], "nor is it offered any more, from the next join on")
		require.Equal(t, `{"extensions":{"release":1}}`, b.payloads()[2])
		require.Equal(t, []string{"lease"}, b.set.Off())
		require.Equal(t, 1, strings.Count(b.log.String(), "not used any more"))
	})
}

// A server that has leased a run under one topic counts on its renewal there,
// whatever happened on another one.
func TestWhatWasAgreedOnBeforeACrashElsewhereStaysSo(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := &app{answers: `{"extensions":{"lease":{"v":1},"release":{"v":1}}}`, knows: "run:renew"}
		b := open(t, a, "lease", "release")
		other, err := b.socket.Join(t.Context(), "room:2", offer{b.set})
		require.NoError(t, err)
		time.Sleep(time.Second)
		require.ErrorIs(t, b.push(t, "release", "run:release"), channel.ErrCrashed)
		time.Sleep(time.Minute)
		join, _ := other.Current()
		require.True(t, b.set.Agreed(join, "release", nil))
		join, _ = b.topic.Current()
		require.False(t, b.set.Agreed(join, "release", nil), "though the server announces it unasked")
		require.True(t, b.set.Agreed(join, "lease", nil))
	})
}

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
