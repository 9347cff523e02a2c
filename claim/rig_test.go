package claim_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

// rig is one loop that runs, with its pool and the means to stop it.
type rig struct {
	*claim.Loop
	pool      *slots.Pool
	endIntake context.CancelFunc
	endWork   context.CancelFunc
	done      chan struct{}
	running   sync.WaitGroup
}

// runLoop starts a loop for the group, in a synctest bubble, and returns when it
// waits for something. The loop ends with the test at the latest.
func runLoop(t *testing.T, group string, o *outside, cfg claim.Config) *rig {
	t.Helper()
	cfg.Pool = slots.NewPool(slots.MustParse(group)[0])
	cfg.Claimer = o
	if cfg.Starter == nil {
		cfg.Starter = o
	}
	r := &rig{Loop: claim.NewLoop(cfg), pool: cfg.Pool, done: make(chan struct{}, 1)}
	r.start(t)
	return r
}

// start runs the loop, for the first time or again after it has ended.
func (r *rig) start(t *testing.T) {
	t.Helper()
	intake, endIntake := context.WithCancel(t.Context())
	work, endWork := context.WithCancel(t.Context())
	r.endIntake, r.endWork = endIntake, endWork
	r.running.Go(func() {
		r.Run(intake, work)
		r.done <- struct{}{}
	})
	t.Cleanup(func() {
		endIntake()
		endWork()
		r.running.Wait()
	})
	synctest.Wait()
}

// ended reports whether Run has returned.
func (r *rig) ended(t *testing.T) bool {
	t.Helper()
	synctest.Wait()
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// logBook returns a logger and what it has written so far.
func logBook() (*slog.Logger, func() string) {
	var mu sync.Mutex
	var book bytes.Buffer
	write := writer(func(p []byte) (int, error) {
		mu.Lock()
		defer mu.Unlock()
		return book.Write(p)
	})
	logger := slog.New(slog.NewTextHandler(write, &slog.HandlerOptions{Level: slog.LevelDebug}))
	return logger, func() string {
		mu.Lock()
		defer mu.Unlock()
		return book.String()
	}
}

type writer func([]byte) (int, error)

func (w writer) Write(p []byte) (int, error) { return w(p) }

// gaps returns the pauses between moments.
func gaps(at []time.Duration) (gaps []time.Duration) {
	for i := 1; i < len(at); i++ {
		gaps = append(gaps, at[i]-at[i-1])
	}
	return gaps
}

// outside is all that loops see of the world: the server they claim from, and
// the place where runs are executed. It records what was asked of it, and
// counts for itself what each group has running and asked for.
type outside struct {
	began time.Time

	mu       sync.Mutex
	queued   map[string][]claim.Run // by queue
	latency  time.Duration          // of a claim
	lasts    time.Duration          // of a run; 0: until finish
	answer   func(claim.Request) ([]claim.Run, error)
	unready  chan struct{} // not nil while the server is away
	hold     chan struct{} // replies wait until it is closed
	asked    []ask
	started  []start
	slots    map[string]*slots.Slot // by run id
	inUse    map[string]int         // by group: running and asked for
	peak     map[string]int         // the most of it
	enqueued int
}

type ask struct {
	at    time.Duration
	group string
	req   claim.Request
}

type start struct {
	at    time.Duration
	group string // of the slot
	run   claim.Run
}

func newOutside() *outside {
	return &outside{
		began:  time.Now(),
		queued: map[string][]claim.Run{},
		slots:  map[string]*slots.Slot{},
		inUse:  map[string]int{},
		peak:   map[string]int{},
	}
}

// Ready implements [claim.Claimer].
func (o *outside) Ready() <-chan struct{} {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.unready != nil {
		return o.unready
	}
	return always
}

// always is the Ready of a server that is never away.
var always = func() chan struct{} {
	c := make(chan struct{})
	close(c)
	return c
}()

// leave takes the server away, and returns what brings it back.
func (o *outside) leave() (back func()) {
	away := make(chan struct{})
	o.set(func(o *outside) { o.unready = away })
	return func() {
		o.set(func(o *outside) { o.unready = nil })
		close(away)
	}
}

func (o *outside) Claim(ctx context.Context, req claim.Request) ([]claim.Run, error) {
	group := strings.Join(req.Queues, ">")
	o.mu.Lock()
	req.Queues = slices.Clone(req.Queues)
	o.asked = append(o.asked, ask{at: time.Since(o.began), group: group, req: req})
	o.useLocked(group, req.Demand)
	latency, hold := o.latency, o.hold
	o.mu.Unlock()
	defer func() {
		o.mu.Lock()
		o.useLocked(group, -req.Demand)
		o.mu.Unlock()
	}()

	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	if latency > 0 {
		time.Sleep(latency)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.answer != nil {
		return o.answer(req)
	}
	return o.takeLocked(req), nil
}

// takeLocked is the server's choice: by the order of the queues, "*" for the rest.
func (o *outside) takeLocked(req claim.Request) (runs []claim.Run) {
	queues := req.Queues
	if slices.Contains(queues, "*") {
		queues = slices.Clone(queues)
		queues = append(queues, []string{"default", "fast_lane", "manual"}...)
	}
	for _, queue := range queues {
		n := min(req.Demand-len(runs), len(o.queued[queue]))
		runs = append(runs, o.queued[queue][:n]...)
		o.queued[queue] = o.queued[queue][n:]
	}
	return runs
}

func (o *outside) Start(run claim.Run, slot *slots.Slot) {
	o.mu.Lock()
	defer o.mu.Unlock()
	group := slot.Group().Name
	o.started = append(o.started, start{at: time.Since(o.began), group: group, run: run})
	o.slots[run.ID] = slot
	o.useLocked(group, 1)
	if o.lasts > 0 {
		time.AfterFunc(o.lasts, func() { o.finish(run.ID) })
	}
}

// finish ends a run that was started.
func (o *outside) finish(id string) {
	o.mu.Lock()
	slot := o.slots[id]
	delete(o.slots, id)
	o.useLocked(slot.Group().Name, -1)
	o.mu.Unlock()
	slot.Free()
}

func (o *outside) useLocked(group string, n int) {
	o.inUse[group] += n
	o.peak[group] = max(o.peak[group], o.inUse[group])
}

// enqueue puts n runs into a queue, with ids r1, r2 and so on, over all queues.
func (o *outside) enqueue(queue string, n int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for range n {
		o.enqueued++
		o.queued[queue] = append(o.queued[queue], claim.Run{ID: "r" + strconv.Itoa(o.enqueued), Token: "token"})
	}
}

func (o *outside) set(change func(*outside)) {
	o.mu.Lock()
	defer o.mu.Unlock()
	change(o)
}

// asks returns when the group claimed.
func (o *outside) asks(group string) (at []time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.asked {
		if a.group == group {
			at = append(at, a.at)
		}
	}
	return at
}

func (o *outside) requests() (requests []claim.Request) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, a := range o.asked {
		requests = append(requests, a.req)
	}
	return requests
}

// runs returns the ids of the runs started in the group, or in any if it is "".
func (o *outside) runs(group string) (ids []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, s := range o.started {
		if group == "" || s.group == group {
			ids = append(ids, s.run.ID)
		}
	}
	return ids
}

// starts returns what was started, in order.
func (o *outside) starts() []start {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.Clone(o.started)
}

func (o *outside) peakOf(group string) int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.peak[group]
}

var errGone = errors.New("the connection is gone")

// fails answers every claim with an error.
func fails(err error) func(claim.Request) ([]claim.Run, error) {
	return func(claim.Request) ([]claim.Run, error) { return nil, err }
}

// key signs run tokens as Lightning does.
type key struct{ *rsa.PrivateKey }

func newKey(t testing.TB) key {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	return key{private}
}

func (k key) publicPEM(t testing.TB) string {
	t.Helper()
	der, err := x509.MarshalPKIXPublicKey(&k.PublicKey)
	require.NoError(t, err)
	return asPEM("PUBLIC KEY", der)
}

func (k key) verifier(t testing.TB) *claim.Verifier {
	t.Helper()
	verifier, err := claim.NewVerifier(base64.StdEncoding.EncodeToString([]byte(k.publicPEM(t))))
	require.NoError(t, err)
	return verifier
}

// sign returns the token of a run that is valid for an hour.
func (k key) sign(t testing.TB, id string) string {
	t.Helper()
	return k.signClaims(t, runClaims(id))
}

func (k key) signClaims(t testing.TB, claims jwt.MapClaims) string {
	t.Helper()
	token, err := jwt.NewWithClaims(jwt.SigningMethodRS256, claims).SignedString(k.PrivateKey)
	require.NoError(t, err)
	return token
}

func runClaims(id string) jwt.MapClaims {
	return jwt.MapClaims{
		"iss": "Lightning", "id": id, "sub": "run:" + id,
		"nbf": time.Now().Unix(), "exp": time.Now().Add(time.Hour).Unix(),
	}
}

func asPEM(kind string, der []byte) string {
	return string(pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}))
}

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}
