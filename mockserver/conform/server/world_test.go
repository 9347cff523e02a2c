package server_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/wstest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform/server"
	"github.com/phxworker/phxworker/mockserver/extended"
	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// world is one server in memory, with what is broken in it.
type world struct {
	*extended.Service

	endpoint *phoenix.Endpoint
	hooks    hooks
	signed   bool           // the tokens of runs, which costs a millisecond each
	links    map[*link]bool // with a network of its own

	hooking  sync.Mutex // held by each hook but those of the network: it guards what they keep
	mu       sync.Mutex // guards what follows, and what the hooks of the network keep
	tokens   map[string]string
	claimers map[string]string // who has the run, by worker_id
}

// hooks are where a server can be broken. Those that are nil leave it as it is.
type hooks struct {
	connect    func(params url.Values, next func() (string, error)) (string, error)
	join       func(t *phoenix.Topic, payload []byte, next func([]byte) (phoenix.Channel, phoenix.Reply)) (phoenix.Channel, phoenix.Reply)
	push       func(j *joined, p phoenix.Push, next func(phoenix.Push) phoenix.Reply) phoenix.Reply
	left       func(j *joined)
	target     func(t *server.Target)
	fromClient func(l *link, m message) []message
	fromServer func(l *link, m message) []message
}

// settings are the options of the server's parts.
type settings struct {
	lightning lightning.Config
	extended  extended.Config
	phoenix   phoenix.Config
}

const secret = "the secret of the servers under test"

// terms are those of the servers: any will do in fake time, if the kit is ready to wait for them.
func terms(t testing.TB, signed bool) settings {
	t.Helper()
	cfg, err := server.MockConfig(mockserver.Extended)
	require.NoError(t, err)
	return settings{
		lightning: lightning.Config{Secret: secret, Key: cfg.Key, JanitorInterval: time.Second, OpaqueTokens: !signed},
		extended: extended.Config{
			Lease: 2 * time.Second, ClaimAck: 700 * time.Millisecond, StatusTimeout: 1100 * time.Millisecond, StatusInterval: 300 * time.Millisecond,
		},
	}
}

// worlds makes a server of its own for each case, broken in this way.
func worlds(t testing.TB, b breakage) server.Servers {
	t.Helper()
	return server.Fresh(func(context.Context) (server.Target, func(), error) {
		s := terms(t, b.signed)
		if b.settings != nil {
			b.settings(&s)
		}
		w := &world{signed: b.signed, tokens: make(map[string]string), claimers: make(map[string]string), links: make(map[*link]bool)}
		var err error
		w.Service, err = extended.New(s.lightning, s.extended)
		require.NoError(t, err)
		s.phoenix.App = w
		w.endpoint, err = phoenix.NewEndpoint(s.phoenix)
		require.NoError(t, err)
		if b.breaks != nil {
			w.hooks = b.breaks(w)
		}
		dial, end := serve(w.endpoint)
		ends := []func(){end, w.Close, func() { _ = w.endpoint.Close() }}
		if w.hooks.fromClient != nil || w.hooks.fromServer != nil {
			var endProxy func()
			inner := dial
			dial, endProxy = serve(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) { w.forward(rw, r, inner) }))
			ends = append(ends, endProxy)
		}
		return w.target(dial), func() {
			for _, end := range slices.Backward(ends) {
				end()
			}
		}, nil
	})
}

// serve serves a handler in memory.
func serve(handler http.Handler) (*wstest.Listener, func()) {
	listener := wstest.NewListener()
	srv := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	var serving sync.WaitGroup
	serving.Go(func() { _ = srv.Serve(listener) })
	return listener, func() {
		_ = srv.Close()
		serving.Wait()
	}
}

func (w *world) target(listener *wstest.Listener) server.Target {
	publicKey := ""
	if w.signed {
		publicKey, _ = w.PublicKey()
	}
	t := server.Target{
		URL: "ws://server/worker", Secret: secret, PublicKey: publicKey, Janitor: time.Second, Dial: listener.DialContext,
		Enqueue: func(_ context.Context, run mockserver.Run) (string, error) { return w.Enqueue(run) },
		Cancel:  func(_ context.Context, id, message string) error { return w.Cancel(id, message) },
		Notify:  func(_ context.Context, id string, notice json.RawMessage) error { return w.Notify(id, notice) },
		Drain:   func(context.Context) error { w.DrainWorkers(""); return nil },
	}
	if w.hooks.target == nil {
		return t
	}
	w.hooks.target(&t)
	enqueue, cancel := t.Enqueue, t.Cancel
	t.Enqueue = func(ctx context.Context, run mockserver.Run) (string, error) {
		w.hooking.Lock()
		defer w.hooking.Unlock()
		return enqueue(ctx, run)
	}
	t.Cancel = func(ctx context.Context, id, message string) error {
		w.hooking.Lock()
		defer w.hooking.Unlock()
		return cancel(ctx, id, message)
	}
	return t
}

// Connect implements [phoenix.App].
func (w *world) Connect(params url.Values) (string, error) {
	next := func() (string, error) { return w.Service.Connect(params) }
	if w.hooks.connect == nil {
		return next()
	}
	w.hooking.Lock()
	defer w.hooking.Unlock()
	return w.hooks.connect(params, next)
}

// Join implements [phoenix.App].
func (w *world) Join(t *phoenix.Topic, payload []byte) (phoenix.Channel, phoenix.Reply) {
	offered := payload
	next := func(payload []byte) (phoenix.Channel, phoenix.Reply) {
		channel, reply := w.Service.Join(t, payload)
		if channel == nil {
			return nil, reply
		}
		return &joined{Channel: channel, world: w, topic: t, offer: string(offered)}, reply
	}
	if w.hooks.join == nil {
		return next(payload)
	}
	w.hooking.Lock()
	defer w.hooking.Unlock()
	return w.hooks.join(t, payload, next)
}

// joined is a topic as joined by one worker.
type joined struct {
	phoenix.Channel

	world *world
	topic *phoenix.Topic
	offer string // the payload of the join
	count int    // for hooks
}

// run is the id of the run whose topic it is.
func (j *joined) run() string {
	id, _ := strings.CutPrefix(j.topic.Name(), "run:")
	return id
}

// Handle implements [phoenix.Channel].
func (j *joined) Handle(p phoenix.Push) phoenix.Reply {
	p.Payload = append([]byte(nil), p.Payload...)
	if j.world.hooks.push == nil {
		return j.handle(p)
	}
	j.world.hooking.Lock()
	defer j.world.hooking.Unlock()
	return j.world.hooks.push(j, p, j.handle)
}

func (j *joined) handle(p phoenix.Push) phoenix.Reply {
	reply := j.Channel.Handle(p)
	if p.Event == "claim" && reply.Status() == "ok" {
		j.world.mu.Lock()
		defer j.world.mu.Unlock()
		for _, run := range runsIn(reply.Response()) {
			j.world.tokens[run.ID], j.world.claimers[run.ID] = run.Token, j.topic.Client()
		}
	}
	return reply
}

// Left implements [phoenix.Channel].
func (j *joined) Left() {
	if j.world.hooks.left != nil {
		j.world.hooking.Lock()
		j.world.hooks.left(j)
		j.world.hooking.Unlock()
	}
	j.Channel.Left()
}

type claimedRun struct {
	ID    string `json:"id"`
	Token string `json:"token"`
}

func runsIn(response []byte) []claimedRun {
	var r struct{ Runs []claimedRun }
	_ = json.Unmarshal(response, &r)
	return r.Runs
}

// edit changes an object.
func edit(raw []byte, change func(map[string]any)) []byte {
	object := make(map[string]any)
	_ = json.Unmarshal(raw, &object) // then there is nothing in it
	change(object)
	out, err := json.Marshal(object)
	if err != nil {
		panic(err)
	}
	return out
}

func get(raw []byte, key string) any {
	object := make(map[string]any)
	_ = json.Unmarshal(raw, &object) // then there is nothing in it
	return object[key]
}

// offer adds an extension to the offer of a join.
func offer(payload []byte, name string) []byte {
	return edit(payload, func(p map[string]any) {
		offers, _ := p["extensions"].(map[string]any)
		all := map[string]any{name: 1}
		maps.Copy(all, offers)
		p["extensions"] = all
	})
}

// hide takes out of the reply what a worker has not offered.
func hide(reply phoenix.Reply, offered []byte) phoenix.Reply {
	offers, _ := get(offered, "extensions").(map[string]any)
	return phoenix.OK(edit(reply.Response(), func(r map[string]any) {
		told, _ := r["extensions"].(map[string]any)
		for name := range told {
			if offers[name] == nil {
				delete(told, name)
			}
		}
		if len(told) == 0 {
			delete(r, "extensions")
		}
	}))
}

// message is one message of a websocket, and what is in it if it is a frame of text.
type message struct {
	kind int
	data []byte
}

// part returns an element of a frame as a string; a ref that is null is empty.
func (m message) part(i int) string {
	var parts []json.RawMessage
	if json.Unmarshal(m.data, &parts) != nil || len(parts) != 5 {
		return ""
	}
	var text string
	_ = json.Unmarshal(parts[i], &text)
	return text
}

func (m message) joinRef() string { return m.part(0) }
func (m message) topic() string   { return m.part(2) }
func (m message) event() string   { return m.part(3) }

// with returns the message with another element.
func (m message) with(i int, value any) message {
	var parts []any
	if json.Unmarshal(m.data, &parts) != nil || len(parts) != 5 {
		return m
	}
	parts[i] = value
	data, err := json.Marshal(parts)
	if err != nil {
		panic(err)
	}
	return message{m.kind, data}
}

// link is a connection through a network that changes what goes over it.
type link struct {
	client, server *websocket.Conn
	refs           map[string]string // for hooks: the latest join_ref of each topic
}

func (l *link) cut() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// forward serves a client with what the real server says, as the hooks have it.
func (w *world) forward(rw http.ResponseWriter, r *http.Request, inner *wstest.Listener) {
	dialer := websocket.Dialer{NetDialContext: inner.DialContext}
	to, resp, err := dialer.Dial("ws://server"+r.URL.Path+"?"+r.URL.RawQuery, nil)
	if err != nil {
		status := http.StatusBadGateway
		if resp != nil {
			status = resp.StatusCode
			_ = resp.Body.Close()
		}
		rw.WriteHeader(status)
		return
	}
	upgrader := websocket.Upgrader{}
	from, err := upgrader.Upgrade(rw, r, nil)
	if err != nil {
		_ = to.Close()
		return
	}
	l := &link{client: from, server: to, refs: make(map[string]string)}
	w.mu.Lock()
	w.links[l] = true
	w.mu.Unlock()
	var back sync.WaitGroup
	back.Go(func() { w.pump(l, to, from, w.hooks.fromServer) })
	w.pump(l, from, to, w.hooks.fromClient)
	back.Wait()
	w.mu.Lock()
	delete(w.links, l)
	w.mu.Unlock()
}

func (w *world) pump(l *link, from, to *websocket.Conn, change func(*link, message) []message) {
	defer l.cut()
	for {
		kind, data, err := from.ReadMessage()
		if err != nil {
			return
		}
		messages := []message{{kind, data}}
		if change != nil {
			w.mu.Lock()
			messages = change(l, messages[0])
			w.mu.Unlock()
		}
		for _, m := range messages {
			if to.WriteMessage(m.kind, m.data) != nil {
				return
			}
		}
	}
}
