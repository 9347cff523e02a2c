package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/runner/delivery"
)

// fetcher reads from a run's topic what the run needs. Reading the plan or a
// credential twice does no harm, so such a read is repeated while there is hope for an
// answer; the input is another matter, see dataclip.
type fetcher struct {
	run *Run
	delivery.Reader
}

type idPayload struct {
	ID string `json:"id"`
}

// maxPlan is the largest plan that is executed, in bytes: what Lightning takes
// in one message, and far more than a workflow has.
const maxPlan = 11_000_000

// smallPlan is what any number of runs may have; larger plans are in memory one after the other, as
// far as they have more than maxPlan bytes together.
const smallPlan = 1 << 20

// plan reads the plan. A large one is read again when there is room for it: it is not kept until then. Of a run
// that was claimed ahead, a large plan is nil: who waits for a slot takes no room from who has one.
func (f *fetcher) plan(ctx context.Context, ahead bool) (*Plan, error) {
	for {
		reply, _, err := f.Read(ctx, "fetch:plan", struct{}{}, false)
		if err != nil {
			return nil, fetchFailure(err, "PlanError", "Failed to load the plan: [fetch:plan] ")
		}
		size := int64(len(reply.Response))
		if size > maxPlan {
			return nil, &Failure{
				Reason: Exception, Type: "PlanError",
				Message: fmt.Sprintf("The plan has %d bytes, over the limit of %d", size, maxPlan),
			}
		}
		if size > smallPlan && ahead {
			return nil, nil
		}
		if size <= smallPlan || f.run.room.fits(size) {
			plan, err := ParsePlan(reply.Response)
			if err != nil {
				return nil, &Failure{Reason: Exception, Type: "PlanError", Message: err.Error()}
			}
			return plan, nil
		}
		if err := f.run.waitForRoom(ctx, size); err != nil {
			return nil, err
		}
	}
}

// dataclip returns the JSON of the run's input, or nil.
//
// A server that erases what was read answers a second reading with nothing. So what comes
// after a first one, of which nobody knows whether it was answered, is not taken when it
// is empty: a run must not go ahead on that.
func (f *fetcher) dataclip(ctx context.Context, id string) (json.RawMessage, error) {
	if id == "" {
		return nil, nil
	}
	doing := "Failed to load dataclip " + delivery.Cut(id, delivery.MaxWords, "…") + ": "
	failed := func(why string) error {
		return &Failure{Reason: Exception, Type: "DataClipError", Message: doing + why}
	}
	reply, again, err := f.Read(ctx, "fetch:dataclip", idPayload{id}, true)
	if err != nil {
		return nil, fetchFailure(err, "DataClipError", doing+"[fetch:dataclip] ")
	}
	body, err := dataclipBody(reply)
	if err != nil {
		return nil, failed(err.Error())
	}
	if again && (body == nil || string(body) == "null") {
		return nil, failed("it was read once without an answer, and was empty when it was read again")
	}
	return body, nil
}

// dataclipBody returns the JSON text of a dataclip: the whole of a binary reply
// (Lightning), or an array of byte values (lightning-mock).
func dataclipBody(reply channel.Reply) (json.RawMessage, error) {
	body := bytes.TrimSpace(reply.Response)
	if !reply.Binary && bytes.HasPrefix(body, []byte("[")) {
		var values []byteValue
		if err := json.Unmarshal(body, &values); err == nil {
			body = make([]byte, len(values))
			for i, v := range values {
				body[i] = byte(v)
			}
		}
	}
	if len(body) == 0 {
		return nil, nil
	}
	if !json.Valid(body) {
		return nil, errors.New("its body is not JSON")
	}
	return append(json.RawMessage(nil), body...), nil
}

// byteValue is a byte written as a number; encoding/json would take a []byte for
// base64.
type byteValue uint8

// credentials returns the credential of each job that has one, by job id. They are
// fetched side by side, one that several jobs share once.
func (f *fetcher) credentials(ctx context.Context, jobs []Job) (map[string]json.RawMessage, error) {
	ids := credentialIDs(jobs)
	bodies, errs := make([]json.RawMessage, len(ids)), make([]error, len(ids))
	var fetching sync.WaitGroup
	turns := make(chan struct{}, credentialsAtOnce)
	for i, id := range ids {
		turns <- struct{}{}
		fetching.Go(func() {
			defer func() { <-turns }()
			errs[i] = f.run.survive(func() error {
				reply, _, err := f.Read(ctx, "fetch:credential", idPayload{id}, false)
				bodies[i] = reply.Response
				return err
			})
		})
	}
	fetching.Wait()

	fetched := make(map[string]json.RawMessage)
	var missing []string
	held, copied := 0, 0
	for i, id := range ids {
		err := fetchFailure(errs[i], "CredentialLoadError", "Failed to load credential "+delivery.Cut(id, delivery.MaxWords, "…")+": [fetch:credential] ")
		var failure *Failure
		switch {
		case errors.As(err, &failure):
			missing = append(missing, failure.Message)
		case err != nil:
			return nil, err
		}
		fetched[id] = bodies[i]
		held += len(bodies[i])
	}
	credentials := make(map[string]json.RawMessage)
	for i := range jobs {
		id, body := jobs[i].CredentialRef()
		if id != "" {
			body = fetched[id] // jobs share it
		} else {
			held += len(body)
		}
		if body != nil {
			credentials[jobs[i].ID] = body
		}
		copied += len(body)
	}
	var why string
	switch more := len(missing) - mostMissing; {
	case more > 0:
		why = strings.Join(missing[:mostMissing], "\n") + fmt.Sprintf("\n… and %d more", more)
	case missing != nil:
		why = strings.Join(missing, "\n")
	case held > maxCredentials:
		why = fmt.Sprintf("The credentials of the run have %d bytes together, over the limit of %d", held, maxCredentials)
	case copied > maxCopied:
		why = fmt.Sprintf("The credentials of all jobs have %d bytes together, over the limit of %d: each job is given its own copy", copied, maxCopied)
	default:
		return credentials, nil
	}
	return nil, &Failure{Reason: Exception, Type: "CredentialLoadError", Message: why}
}

const (
	// credentialsAtOnce is how many are asked for side by side: a plan may name very many. Of
	// those that cannot be had, mostMissing are told.
	credentialsAtOnce = 16
	mostMissing       = 20
	// maxCredentials bounds the credentials of a run, in bytes. A process that executes it is given one for each
	// job, of which a plan may have very many, all with the same large one; maxCopied bounds these.
	maxCredentials = 16 << 20
	maxCopied      = 64 << 20
)

// againWithin bounds the second fetch of the credentials.
const againWithin = 10 * time.Second

// credentialsAgain fetches the credentials once more for the server's sake, under a new
// join: it scrubs their secrets from the log of a run, but forgets them with each join. That is
// worth one try, for the worker has scrubbed them itself; it reports whether there is
// sense in another try after the next rejoin.
func (f *fetcher) credentialsAgain(ctx context.Context, join *channel.Join, jobs []Job) bool {
	ctx, cancel := context.WithTimeout(ctx, againWithin)
	defer cancel()
	for _, id := range credentialIDs(jobs) {
		_, err := join.PushWithin(ctx, againWithin, "fetch:credential", idPayload{id})
		if err == nil {
			continue
		}
		f.run.log.Warn("a credential could not be fetched again after a rejoin; the worker alone scrubs it from the log", "error", err)
		if !errors.As(err, new(*channel.RefusedError)) {
			return !errors.Is(err, channel.ErrCrashed) && !errors.Is(err, channel.ErrUnanswered) && ctx.Err() == nil
		}
	}
	return true
}

// credentialIDs returns the ids of the credentials that have to be fetched, each once.
func credentialIDs(jobs []Job) (ids []string) {
	seen := make(map[string]bool)
	for i := range jobs {
		if id, _ := jobs[i].CredentialRef(); id != "" && !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// fetchFailure makes an Exception of a read that was refused, with the response in its
// message, or given up; any other error stays what it is.
func fetchFailure(err error, errorType, doing string) error {
	if why, ok := delivery.WhyUnread(err); ok {
		return &Failure{Reason: Exception, Type: errorType, Message: doing + why}
	}
	return err
}

// planRoom is the part that one run has of the memory for large plans, which all runs share. A large plan takes
// several times its size for as long as its run lasts.
type planRoom struct {
	all  *semaphore.Weighted
	held int64
}

// fits takes room for a plan of a size if there is as much; what was taken already counts.
func (r *planRoom) fits(size int64) bool {
	if size > r.held {
		if !r.all.TryAcquire(size - r.held) {
			r.free()
			return false
		}
		r.held = size
	}
	return true
}

// longestWait is how long a run waits for room in its slot, or a quarter of what its token has left: it has to
// be executed yet. Then it goes back, where the server takes it, for later.
const longestWait = 5 * time.Minute

// waitForRoom takes room for the plan when there is as much.
func (r *Run) waitForRoom(ctx context.Context, size int64) error {
	end, _ := r.outbox.TokenEnd()
	within := min(longestWait, time.Until(end)/4)
	ctx, cancel := context.WithTimeoutCause(ctx, within, Postpone(time.Minute, fmt.Sprintf(
		"other large plans have left no room for this one, of %d bytes, for %v", size, within.Round(time.Second))))
	defer cancel()
	if err := r.room.all.Acquire(ctx, size); err != nil {
		return context.Cause(ctx)
	}
	r.room.held = size
	return nil
}

func (r *planRoom) free() {
	r.all.Release(r.held)
	r.held = 0
}
