package worker

import (
	"context"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/google/uuid"
)

// loop claims for one group of slots.
type loop struct {
	name   string // as in the join
	queues []string
	slots  chan struct{} // a token for each slot that is free
	woken  chan struct{} // capacity 1
	all    sync.WaitGroup
}

// open makes the groups, before anybody looks at them.
func (w *scripted) open() {
	for group := range strings.FieldsSeq(w.workloops()) {
		name, count, _ := strings.Cut(group, ":")
		n, _ := strconv.Atoi(count)
		g := &loop{name: name, queues: strings.Split(name, ">"), slots: make(chan struct{}, n), woken: make(chan struct{}, 1000)}
		for range n {
			g.slots <- struct{}{}
		}
		w.groups = append(w.groups, g)
	}
}

// work claims and executes until the first signal, and then until the runs are over.
func (w *scripted) work() {
	var loops sync.WaitGroup
	for _, g := range w.groups {
		loops.Go(func() { w.claim(g) })
	}
	loops.Wait()
	if w.is("drops its runs at SIGTERM") {
		w.end()
	}
	for _, g := range w.groups {
		g.all.Wait()
	}
}

func (w *scripted) slots() (n int) {
	for _, g := range w.groups {
		n += cap(g.slots)
	}
	return n
}

func (w *scripted) queues() map[string]int {
	out := make(map[string]int)
	for _, g := range w.groups {
		out[g.name] = cap(g.slots)
	}
	return out
}

// wake has all loops look again.
func (w *scripted) wake() {
	for _, g := range w.groups {
		if w.is("claims for each wake-up") || len(g.woken) == 0 {
			select {
			case g.woken <- struct{}{}:
			default:
			}
		}
	}
}

// fromQueue takes what the server pushes on worker:queue.
func (w *scripted) fromQueue(event string, _ json.RawMessage) {
	switch {
	case event == "work-available":
		w.wake()
	case event == "worker:drain" && !w.is("deaf to drain"):
		w.drain()
	}
}

// claim is the loop of a group.
func (w *scripted) claim(g *loop) {
	link := w.links[0]
	ctx := w.ctx
	if w.is("claims after SIGTERM") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithCancel(w.gone)
		defer cancel()
		go func() {
			select {
			case <-w.ctx.Done():
			case <-ctx.Done():
			}
			for pause(ctx, 50*time.Millisecond); ctx.Err() == nil; pause(ctx, 50*time.Millisecond) {
				w.mu.Lock()
				n := len(w.runs)
				w.mu.Unlock()
				if n == 0 {
					cancel()
				}
			}
		}()
	}
	var s *session
	for ctx.Err() == nil {
		full := len(g.slots) == 0
		select {
		case <-g.slots:
		case <-ctx.Done():
			return
		}
		if full && s != nil && !s.alive() && w.is("forgets its loop when it was full") {
			return
		}
		if s = link.session(ctx); s == nil {
			return
		}
		if w.is("counts no claim that is under way") {
			g.slots <- struct{}{}
			g.all.Go(func() {
				if got, _ := w.claimOnce(s, g); got {
					select {
					case <-g.slots:
					default:
					}
				}
			})
			pause(ctx, 100*time.Millisecond)
			continue
		}
		got, err := w.claimOnce(s, g)
		if !got {
			if w.is("a lost claim keeps its slot") && errors.Is(err, errGone) {
				continue
			}
			g.slots <- struct{}{}
			w.rest(ctx, g, err)
		}
	}
}

// rest waits for a reason to claim again.
func (w *scripted) rest(ctx context.Context, g *loop, err error) {
	d := w.MinBackoff
	if err != nil {
		d = time.Second
	}
	switch {
	case w.is("spins") && err == nil:
		d = 20 * time.Millisecond
	case w.is("claims under the old join") && errors.Is(err, errCrashed):
		pause(ctx, 50*time.Millisecond)
		return
	case w.is("claims at once after a refusal") && err != nil:
		return
	case err != nil: // a wake-up is no reason to try again sooner
		pause(ctx, d)
		return
	}
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-g.woken:
		if w.is("wakes up slowly") {
			pause(ctx, 150*time.Millisecond)
		}
	case <-ctx.Done():
	}
}

const longTime = time.Hour

// claimOnce claims one run, and starts it with the slot that its loop has taken.
func (w *scripted) claimOnce(s *session, g *loop) (got bool, err error) {
	payload := fields{"demand": 1, "worker_name": nil, "queues": g.queues}
	switch w.flaw {
	case "no demand":
		delete(payload, "demand")
	case "claims without queues":
		delete(payload, "queues")
	case "claims more than it has room for":
		payload["demand"] = 3
	case "all groups claim from all queues":
		payload["queues"] = []string{"manual", "*"}
	}
	limit := longTime
	if terms, ok := s.terms(queueTopic, "longpoll"); ok && !w.is("claims without wait_ms") {
		var told struct {
			Max int `json:"max_wait_ms"`
		}
		_ = json.Unmarshal(terms, &told)
		payload["wait_ms"] = told.Max
	}
	if w.is("wait_ms for everybody") {
		payload["wait_ms"] = 100
	}
	if w.is("claims time out") && w.MessageTimeout > 0 {
		limit = w.MessageTimeout
	}
	joinRef := s.joinRef(queueTopic)
	if joinRef == "" && w.is("claims under the old join") {
		joinRef = "1"
	}
	if joinRef == "" {
		return false, errCrashed
	}
	ended := s.end(queueTopic)
	_, reply, err := s.send(queueTopic, joinRef, "claim", payload)
	if err != nil {
		return false, err
	}
	if w.is("claims under the old join") && ended == nil {
		return false, errCrashed
	}
	if w.is("abandons its claims at SIGTERM") {
		select {
		case <-w.ctx.Done():
			return false, nil
		case a := <-reply:
			return w.receive(g, a), nil
		case <-s.done:
			return false, errGone
		}
	}
	a, err := s.await(reply, ended, limit)
	if err != nil {
		return false, err
	}
	if a.status != "ok" {
		return false, &refusedError{string(a.response)}
	}
	return w.receive(g, a), nil
}

// receive starts the runs of an answer. The first of them has a slot.
func (w *scripted) receive(g *loop, a answer) (got bool) {
	var told struct {
		Runs []struct {
			given

			LeaseMS int `json:"lease_ms"`
		}
	}
	_ = json.Unmarshal(a.response, &told)
	for i, run := range told.Runs {
		if !w.trusts(run.Token) {
			continue
		}
		if w.executes(run.ID) && !w.is("executes what it executes already") && !w.is("heeds what comes twice") {
			got = w.is("a run that comes twice keeps its slot")
			continue
		}
		got = true
		r := w.execution(run.given, time.Duration(run.LeaseMS)*time.Millisecond)
		w.mu.Lock()
		r.link = w.links[len(w.runs)%len(w.links)]
		w.runs[run.ID+run.Token] = r
		w.mu.Unlock()
		g.all.Go(func() {
			r.live()
			r.cancel(nil)
			w.mu.Lock()
			delete(w.runs, run.ID+run.Token)
			w.mu.Unlock()
			switch {
			case w.is("rests after a run"):
				pause(w.ctx, w.MinBackoff)
			case w.is("rests for five seconds after a run"):
				pause(w.ctx, 5*time.Second)
			}
			if i == 0 {
				select {
				case g.slots <- struct{}{}:
				default: // the slot of an answer that came twice
				}
			}
		})
	}
	return got
}

// executes reports whether a run is under way, and not lost.
func (w *scripted) executes(id string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, r := range w.runs {
		if r.ID == id && r.ctx.Err() == nil {
			return true
		}
	}
	return false
}

// trusts checks a run's token with the server's key.
func (w *scripted) trusts(token string) bool {
	switch {
	case w.PublicKey == "" || w.is("trusts everybody"):
		return true
	case w.is("trusts nobody"):
		return false
	}
	text, _ := base64.StdEncoding.DecodeString(w.PublicKey)
	block, _ := pem.Decode(text)
	key, err := x509.ParsePKIXPublicKey(block.Bytes)
	if err != nil {
		return false
	}
	_, err = jwt.NewParser(jwt.WithLeeway(5*time.Second)).Parse(token, func(*jwt.Token) (any, error) { return key.(*rsa.PublicKey), nil })
	return err == nil
}

func (w *scripted) isOff(name string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.off[name]
}

// tell sends the status for as long as the join holds.
func (w *scripted) tell(s *session, quit <-chan struct{}) {
	terms, ok := s.terms(queueTopic, "status")
	if !ok || w.is("no status") {
		return
	}
	var told struct {
		Interval int `json:"interval_ms"`
	}
	_ = json.Unmarshal(terms, &told)
	ticker := time.NewTicker(time.Duration(told.Interval) * time.Millisecond)
	defer ticker.Stop()
	stopping := w.ctx.Done()
	for {
		running := []string{}
		w.mu.Lock()
		for _, r := range w.runs {
			running = append(running, r.ID)
		}
		w.mu.Unlock()
		groups := fields{}
		for _, g := range w.groups {
			open := len(g.slots)
			groups[g.name] = fields{"slots": cap(g.slots), "open": open, "claimed": 0, "running": cap(g.slots) - open}
		}
		status := fields{"groups": groups, "runs": running, "draining": w.ctx.Err() != nil && !w.is("says nothing of its drain")}
		if w.is("a status without runs") {
			status["runs"] = []string{}
		}
		if _, err := s.push(queueTopic, s.joinRef(queueTopic), "worker:status", status, 5*time.Second); errors.Is(err, errCrashed) && !w.is("offers what crashed") {
			w.mu.Lock()
			w.off["status"] = true
			w.mu.Unlock()
		}
		select {
		case <-ticker.C:
		case <-stopping:
			stopping = nil
		case <-quit:
			return
		}
	}
}

// execution is one run.
type execution struct {
	given

	w      *scripted
	link   *link
	ctx    context.Context
	cancel context.CancelCauseFunc
	lease  time.Duration

	joinedTo *session
	ref      string
	crashes  int

	plan struct {
		DataclipID string `json:"dataclip_id"`
		Globals    string
		Jobs       []struct{ ID, Body, Adaptor, CredentialID string }
		Edges      []struct {
			Source    string `json:"source_job_id"`
			Target    string `json:"target_job_id"`
			Condition string
			Enabled   *bool
		}
		Options struct {
			Timeout *int     `json:"run_timeout_ms"`
			Payload *float64 `json:"payload_limit_mb"`
			Outputs *bool    `json:"output_dataclips"`
		}
	}
	lastClip  string
	lastState any
}

func (w *scripted) execution(g given, lease time.Duration) *execution {
	r := &execution{w: w, given: g, lease: lease}
	r.ctx, r.cancel = context.WithCancelCause(w.gone)
	return r
}

func (r *execution) topic() string { return "run:" + r.ID }

// heard takes what the server pushes on the run's topic.
func (r *execution) heard(event string, payload json.RawMessage) {
	switch {
	case event == "run:cancel" && !r.w.is("deaf to cancel"):
		r.cancel(errCancelled)
	case event == "run:notify" && r.w.is("stumbles over notices"):
		r.cancel(errLostRun)
	}
}

var errCancelled = errors.New("cancelled")

// join joins the run's topic on whatever connection there is.
func (r *execution) join() (*session, error) {
	for tries := 0; ; tries++ {
		away := r.w.gone
		if r.w.is("forgets its runs when the server is away") && r.joinedTo != nil {
			var cancel context.CancelFunc
			away, cancel = context.WithTimeout(away, time.Second)
			defer cancel()
		}
		s := r.link.session(away)
		if s == nil {
			return nil, errLostRun
		}
		if s == r.joinedTo && s.joinRef(r.topic()) == r.ref && r.ref != "" {
			return s, nil
		}
		payload := fields{"token": r.Token}
		offers := fields{}
		for _, name := range r.w.offers {
			if name == "lease" || name == "cancel" || name == "notify" {
				offers[name] = 1
			}
		}
		if len(offers) > 0 {
			payload["extensions"] = offers
		}
		if r.w.is("fetches before it has joined") && r.joinedTo == nil {
			_, _, _ = s.send(r.topic(), "", "phx_join", payload)
			_, _, _ = s.send(r.topic(), "", "fetch:plan", fields{})
		}
		err := s.join(r.topic(), payload, r.heard)
		var refused *refusedError
		switch {
		case err == nil:
			r.joinedTo, r.ref = s, s.joinRef(r.topic())
			return s, nil
		case errors.As(err, &refused) && !strings.Contains(refused.response, "crashed") && !r.again(refused.response):
			return nil, errLostRun
		}
		pause(r.w.gone, 200*time.Millisecond)
		if r.w.gone.Err() != nil {
			return nil, errLostRun
		}
	}
}

// again reports whether the flaw has a refused join tried again.
func (r *execution) again(response string) bool {
	reason, ok := strings.CutPrefix(r.w.flaw, "tries again for ever: ")
	return ok && strings.Contains(response, reason)
}

// tell delivers an event until the server has it, and returns the answer.
func (r *execution) tell(event string, payload any) (answer, error) {
	limit := 30 * time.Second
	if r.w.MessageTimeout > 0 {
		limit = r.w.MessageTimeout
	}
	if r.w.is("waits for ever") {
		limit = longTime
	}
	for {
		s, err := r.join()
		if err != nil {
			return answer{}, err
		}
		a, err := s.push(r.topic(), r.ref, event, payload, limit)
		switch {
		case err == nil && a.status == "ok":
			return a, nil
		case err == nil:
			if strings.Contains(string(a.response), "lease_lost") && !r.w.is("reports what it has lost") {
				return a, errLostRun
			}
			return a, r.refused(event, string(a.response))
		case r.w.is("gives up at " + event), r.w.is("counts before it escapes") && errors.Is(err, errGone) && size(payload) > maxFrame: // or it would go on with 18 MB
			return answer{}, errLostRun
		case r.w.is("not again: "+event) && errors.Is(err, errGone):
			return answer{status: "ok"}, nil
		case errors.Is(err, errTimeout):
			if r.w.is("lets be what is not answered") && !strings.HasPrefix(event, "fetch:") {
				return answer{status: "ok"}, nil
			}
			if !strings.HasPrefix(r.w.flaw, "again under the same join") {
				r.ref = "" // another join
			}
		case errors.Is(err, errCrashed):
			r.crashes++
			if r.w.is("gives up when its topic crashes") || r.w.is("gives up after three crashes") && r.crashes >= 3 {
				return answer{}, errLostRun
			}
			pause(r.w.gone, 500*time.Millisecond)
		}
		if r.w.gone.Err() != nil {
			return answer{}, errLostRun
		}
	}
}

// refused says whether a refusal ends the run.
func (r *execution) refused(event, response string) error {
	shape := "text"
	if strings.HasPrefix(response, `{"errors"`) {
		shape = "errors"
	} else if strings.HasPrefix(response, "{") {
		shape = "fields"
	}
	taken := strings.Contains(response, "taken") || strings.Contains(response, "already")
	switch {
	case taken && r.w.is("stumbles over what was applied: "+event):
		<-r.w.gone.Done() // and keeps the slot
		return errLostRun
	case !taken && r.w.is("stumbles over refusals: "+shape) && event == "step:complete",
		event == "run:log" && r.w.is("a refused line ends the run"),
		strings.HasPrefix(event, "fetch:"), event == "step:start" && !taken:
		return errLostRun
	}
	return nil
}

func stamp() string { return strconv.FormatInt(time.Now().UnixMicro(), 10) }

func (r *execution) stamp() string {
	if r.w.is("milliseconds") {
		return strconv.FormatInt(time.Now().UnixMilli(), 10)
	}
	return stamp()
}

// live takes the run from its join to its end.
func (r *execution) live() {
	if strings.HasPrefix(r.w.flaw, "one run at a time") {
		select {
		case r.w.one <- struct{}{}:
		case <-r.w.gone.Done():
			return
		}
		defer func() { <-r.w.one }()
	}
	a, err := r.tell("fetch:plan", fields{})
	if err != nil {
		return
	}
	_ = json.Unmarshal(a.response, &r.plan)
	var raw struct{ Jobs []fields }
	_ = json.Unmarshal(a.response, &raw)
	for i, j := range raw.Jobs {
		r.plan.Jobs[i].CredentialID, _ = j["credential_id"].(string)
	}
	stop := r.renew()
	defer stop()
	const most = 3 // attempts
	if r.Attempt > most && !r.w.is("tries for ever") {
		_, _ = r.tell("run:complete", fields{"reason": "exception", "error_type": "Poisonous", "error_message": "enough", "timestamp": r.stamp()})
		r.leave()
		return
	}
	end, lost := r.walk()
	if errors.Is(lost, errLostRun) || errors.Is(context.Cause(r.ctx), errLostRun) && !r.w.is("reports what it has lost") {
		r.leave()
		return
	}
	if errors.Is(context.Cause(r.ctx), errAborted) && r.release() {
		return
	}
	if r.w.is("no report after the second signal") && errors.Is(context.Cause(r.ctx), errAborted) {
		return
	}
	end["timestamp"] = r.stamp()
	if r.w.is("a reason that is none") {
		end["reason"] = "ok"
	}
	if _, err := r.tell("run:complete", end); err != nil {
		return
	}
	if r.w.is("a line behind the end") {
		_, _ = r.tell("run:log", r.line("late", ""))
	}
	if r.w.is("ends at a crash") && end["reason"] == "crash" {
		r.w.end()
	}
	r.leave()
}

func (r *execution) leave() {
	if !r.w.is("does not leave") && r.joinedTo != nil && r.joinedTo.alive() {
		_, _ = r.joinedTo.push(r.topic(), r.ref, "phx_leave", fields{}, time.Second)
	}
}

// release returns the run to the queue, where that was agreed on.
func (r *execution) release() bool {
	s := r.w.links[0].live()
	if s == nil || r.w.is("returns nothing") {
		return false
	}
	if _, ok := s.terms(queueTopic, "release"); !ok {
		return false
	}
	a, err := s.push(queueTopic, s.joinRef(queueTopic), "run:release", fields{"id": r.ID, "token": r.Token, "reason": "requeue", "delay_ms": 0}, 2*time.Second)
	return err == nil && a.status == "ok"
}

// renew renews the lease until the function that it returns is called.
func (r *execution) renew() (stop func()) {
	s := r.joinedTo
	if _, ok := s.terms(r.topic(), "lease"); !ok || r.lease == 0 || r.w.is("never renews") {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	ref := r.ref
	go func() {
		defer close(done)
		ticker := time.NewTicker(r.lease * 2 / 5) // one that is refused can be followed by another in time
		defer ticker.Stop()
		for {
			select {
			case <-ticker.C:
			case <-quit:
				return
			}
			if a, err := s.push(r.topic(), ref, "run:renew", fields{}, time.Second); err == nil && a.status != "ok" && !r.w.is("reports what it has lost") {
				r.cancel(errLostRun)
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

func (r *execution) line(text, step string) fields {
	line := fields{"run_id": r.ID, "message": []string{text}, "level": "info", "source": "JOB", "timestamp": r.stamp()}
	if step != "" && !r.w.is("lines without their step") {
		line["step_id"] = step
	}
	if r.w.is("a long source") {
		line["source"] = "javascript"
	}
	return line
}

// visit is a job to be executed, with what it works on.
type visit struct {
	job   int
	state map[string]any
	clip  string
	first bool
}

// outcome is how a step ended.
type outcome struct {
	reason, kind, message string
	leaf                  bool
}

// walk executes the jobs, and returns what run:complete says.
func (r *execution) walk() (end fields, err error) {
	state := map[string]any{}
	if r.plan.DataclipID != "" && !r.w.is("no input") {
		a, err := r.tell("fetch:dataclip", fields{"id": r.plan.DataclipID})
		if err != nil {
			return nil, err
		}
		if string(a.response) == "null" && !r.w.is("executes on nothing") {
			return fields{"reason": "exception", "error_type": "DataclipError", "error_message": "the input is not there any more"}, nil
		}
		_ = json.Unmarshal(a.response, &state)
		if state == nil {
			state = map[string]any{}
		}
	}
	credentials := make(map[string]map[string]any)
	for _, j := range r.plan.Jobs {
		if j.CredentialID == "" {
			continue
		}
		a, err := r.tell("fetch:credential", fields{"id": j.CredentialID})
		if a.status == "error" {
			reason := "exception"
			if r.w.is("a missing credential crashes") {
				reason = "crash"
			}
			return fields{"reason": reason, "error_type": "CredentialLoadError", "error_message": "no credential"}, nil
		}
		if err != nil {
			return nil, err
		}
		var body map[string]any
		_ = json.Unmarshal(a.response, &body)
		credentials[j.ID] = body
	}
	start := func() error {
		_, err := r.tell("run:start", fields{"timestamp": r.stamp(), "versions": fields{"worker": "1.0.0"}})
		return err
	}
	if !r.w.is("starts late") {
		if err := start(); err != nil {
			return nil, err
		}
	}
	ctx := r.ctx
	if r.plan.Options.Timeout != nil && !r.w.is("no time limit") {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, time.Duration(*r.plan.Options.Timeout)*time.Millisecond)
		defer cancel()
	}
	final := fields{"reason": "success", "error_type": nil, "error_message": nil}
	var worst *outcome
	visits := []visit{{state: state, clip: r.plan.DataclipID, first: true}}
	for len(visits) > 0 {
		v := visits[0]
		visits = visits[1:]
		next, out, err := r.step(ctx, v, credentials)
		if err != nil {
			return nil, err
		}
		if r.w.is("starts late") && v.first {
			if err := start(); err != nil {
				return nil, err
			}
		}
		if out.reason != "success" && out.reason != "fail" {
			worst = &out
			break
		}
		if out.reason == "fail" && (out.leaf || r.w.is("any failure counts")) {
			worst = &out
		}
		visits = append(visits, next...)
	}
	if worst != nil {
		final = fields{"reason": worst.reason, "error_type": worst.kind, "error_message": worst.message}
	} else {
		if id := r.lastClip; id != "" && !r.w.is("no final dataclip") {
			final["final_dataclip_id"] = id
		}
	}
	if r.w.is("an error beside the success") && final["reason"] == "success" {
		final["error_type"] = "none"
	}
	if r.w.is("everything succeeds") {
		final["reason"] = "success"
	}
	final["final_state"] = r.lastState
	if _, ok := r.lastState.(map[string]any); !ok && !r.w.is("a final state of any kind") {
		final["final_state"] = fields{"value": r.lastState}
	}
	if r.w.is("a final state of any kind") {
		delete(final, "final_dataclip_id")
	}
	if size(final) > maxFrame {
		final["final_state"] = nil
	}
	return final, nil
}

func size(v any) int {
	text, _ := json.Marshal(v)
	return len(text)
}

const maxFrame = 10_500_000

var thresholds = regexp.MustCompile(`^state\.data\.n > (\d+)$`)

func (r *execution) follows(condition string, failed bool, state map[string]any) bool {
	switch condition {
	case "", "always":
		return true
	case "on_job_success":
		return !failed
	case "on_job_failure":
		return failed
	}
	match := thresholds.FindStringSubmatch(condition)
	data, _ := state["data"].(map[string]any)
	n, _ := data["n"].(float64)
	than, _ := strconv.Atoi(match[1])
	return n > float64(than)
}

// step executes a job, and returns those that follow.
func (r *execution) step(ctx context.Context, v visit, credentials map[string]map[string]any) (next []visit, out outcome, err error) {
	job := r.plan.Jobs[v.job]
	id := uuid.NewString()
	start := fields{"step_id": id, "job_id": job.ID, "timestamp": r.stamp()}
	if v.clip != "" {
		start["input_dataclip_id"] = v.clip
	}
	if r.w.is("the run's input for all steps") {
		start["input_dataclip_id"] = r.plan.DataclipID
	}
	if !v.first && r.w.is("the last branch's output") && len(r.plan.Edges) == 4 && job.ID == "d" {
		start["input_dataclip_id"] = r.lastClip
	}
	if _, err := r.tell("step:start", start); err != nil {
		return nil, out, err
	}
	state := maps.Clone(v.state)
	if c := credentials[job.ID]; c != nil {
		state["configuration"] = c
	}
	result, logged, out := r.do(ctx, job.Body, state)
	switch {
	case r.w.is("lines in another order"):
		slices.Reverse(logged)
	case r.w.is("no lines of jobs"):
		logged = nil
	}
	if strings.HasSuffix(r.w.flaw, "in batches") && len(logged) > 0 {
		var batch []fields
		for _, text := range logged {
			batch = append(batch, r.line(text, id))
		}
		if _, err := r.tell("run:batch_logs", fields{"logs": batch}); err != nil {
			return nil, out, err
		}
		logged = nil
	}
	for _, text := range logged {
		if c, _ := state["configuration"].(map[string]any); c != nil && !r.w.is("logs secrets") {
			text = strings.ReplaceAll(text, fmt.Sprint(c["password"]), "***")
		}
		if _, err := r.tell("run:log", r.line(text, id)); err != nil {
			return nil, out, err
		}
	}
	after, isObject := result.(map[string]any)
	if isObject && !r.w.is("keeps the configuration") {
		delete(after, "configuration")
	}
	done := fields{"step_id": id, "job_id": job.ID, "reason": out.reason, "error_type": nil, "error_message": nil, "timestamp": r.stamp(), "duration": 1, "mem": fields{"job": 1, "system": 1}}
	if out.reason != "success" {
		done["error_type"], done["error_message"] = out.kind, out.message
	}
	if r.w.is("completes under the first job") {
		done["job_id"] = r.plan.Jobs[0].ID
	}
	clip := r.output(done, result)
	if hook, ok := after["webhookResponse"]; ok && !r.w.is("no webhook response") {
		done["webhook_response"] = hook
	}
	a, err := r.tell("step:complete", done)
	if err != nil {
		return nil, out, err
	}
	if a.status != "ok" && !strings.Contains(string(a.response), "taken") {
		clip = "" // the server does not know it
	}
	r.lastClip, r.lastState = clip, result
	failed := out.reason == "fail"
	carried := after
	if failed || carried == nil {
		carried = state
	}
	out.leaf = true
	for _, e := range r.plan.Edges {
		if e.Source != job.ID || e.Enabled != nil && !*e.Enabled && !r.w.is("follows what is disabled") || !r.follows(e.Condition, failed, carried) {
			continue
		}
		out.leaf = false
		at := slices.IndexFunc(r.plan.Jobs, func(j struct{ ID, Body, Adaptor, CredentialID string }) bool { return j.ID == e.Target })
		next = append(next, visit{job: at, state: carried, clip: clip})
	}
	return next, out, nil
}

// output adds the output of a step to its report, and returns its id.
func (r *execution) output(done fields, result any) (clip string) {
	text, _ := json.Marshal(result)
	limit := 10.0
	if r.plan.Options.Payload != nil {
		limit = *r.plan.Options.Payload
	}
	withheld := float64(len(text)) > limit*1e6
	if r.w.is("sends what is too large") {
		withheld = false
	}
	clip = uuid.NewString()
	switch {
	case r.plan.Options.Outputs != nil && !*r.plan.Options.Outputs && !r.w.is("sends outputs anyway"):
		done["output_dataclip_id"] = clip
		return clip
	case r.w.is("outputs as objects"):
		done["output_dataclip"] = json.RawMessage(text)
	case r.w.is("outputs as lists"):
		done["output_dataclip"] = []any{json.RawMessage(text)}
	default:
		done["output_dataclip"] = string(text)
	}
	done["output_dataclip_id"] = clip
	if withheld || size(done) > maxFrame && !r.w.is("counts before it escapes") {
		delete(done, "output_dataclip")
		delete(done, "output_dataclip_id")
		done["output_dataclip_error"] = "DATACLIP_TOO_LARGE"
		return ""
	}
	return clip
}

// do does what a job of the kit does.
func (r *execution) do(ctx context.Context, code string, state map[string]any) (result any, logged []string, out outcome) {
	out.reason = "success"
	data := func(d map[string]any) map[string]any {
		after := maps.Clone(state)
		after["data"] = d
		return after
	}
	old, _ := state["data"].(map[string]any)
	configuration, _ := state["configuration"].(map[string]any)
	switch code {
	case codeCount:
		n, _ := old["n"].(float64)
		return data(map[string]any{"n": n + 1}), nil, out
	case codeThrow:
		out = outcome{reason: "fail", kind: "JobError", message: "thrown on purpose"}
		if r.w.is("no message") {
			out.message = "it failed"
		}
	case codeTypo:
		out = outcome{reason: "crash", kind: "ReferenceError", message: "stat is not defined"}
		if r.w.is("a mistake is a failure") {
			out.reason = "fail"
		}
	case codeShort, codeWait, codeBeyondLease, codeLong:
		d := map[string]time.Duration{codeShort: 150 * time.Millisecond, codeWait: 500 * time.Millisecond, codeBeyondLease: 2500 * time.Millisecond, codeLong: time.Minute}[code]
		if r.w.is("one run at a time, of jobs that take no time") {
			d = 0
		}
		pause(ctx, d)
		switch {
		case r.ctx.Err() != nil:
			out = outcome{reason: "cancel", kind: "RunCancelled", message: "cancelled"}
		case ctx.Err() != nil:
			out = outcome{reason: "kill", kind: "TimeoutError", message: "too long"}
		}
	case codeLog:
		return state, fiftyLines(), out
	case codeSecret:
		return data(map[string]any{"user": configuration["user"]}), []string{fmt.Sprint("the password is ", configuration["password"])}, out
	case codeUser:
		return data(map[string]any{"user": configuration["user"]}), nil, out
	case codeLarge:
		return data(map[string]any{"text": strings.Repeat("x", 2_000_000)}), nil, out
	case codeQuotes:
		return data(map[string]any{"text": strings.Repeat(`"`, 4_500_000)}), nil, out
	case codeNUL, codeSurrogate:
		text := map[string]string{codeNUL: "before\ufffdbehind", codeSurrogate: "before\ufffebehind"}[code]
		return data(map[string]any{"text": text}), []string{text}, out
	case codeGreet:
		if r.plan.Globals != codeGlobals || r.w.is("no globals") {
			return state, nil, outcome{reason: "crash", kind: "ReferenceError", message: "greet is not defined"}
		}
		return data(map[string]any{"greeting": "hello Ada"}), nil, out
	case codeWebhook:
		after := maps.Clone(state)
		after["webhookResponse"] = fields{"status": 201, "body": fields{"sum": 42}}
		return after, nil, out
	case codeNumber:
		return 42, nil, out
	case "":
		if r.w.is("no code hangs") {
			<-r.ctx.Done()
		}
	default:
		panic("the scripted worker does not know " + code)
	}
	return state, nil, out
}
