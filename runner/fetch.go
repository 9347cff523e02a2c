package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/runner/delivery"
)

type idPayload struct {
	ID string `json:"id"`
}

// unfetched is how a run ends that cannot be executed for want of something.
func unfetched(kind, message string) *Failure {
	return &Failure{Reason: Exception, Type: kind + "Error", Message: message}
}

// whyUnfetched makes that of a read that was refused, with the response in its message, or given up; any other error
// stays what it is.
func whyUnfetched(err error, kind, doing string) error {
	if why, ok := errors.AsType[delivery.Unread](err); ok {
		return unfetched(kind, doing+string(why))
	}
	return err
}

// maxPlan is the largest plan that is executed, in bytes: what Lightning takes in one message, and far more than a
// workflow has. Any number of runs may have plans up to smallPlan; larger ones are in memory one after the other, as
// far as they have more than maxPlan bytes together.
const (
	maxPlan   = 11_000_000
	smallPlan = 1 << 20
)

// loadPlan reads the plan, and applies its options. Like a credential, it is read again while there is hope for an
// answer, for that does no harm; the input is another matter, see fetchDataclip. A large one is read again when there
// is room for it: it is not kept until then. Of a run that was claimed ahead, a large one is not loaded: who waits for
// a slot takes no room from who has one.
func (r *Run) loadPlan(ctx context.Context, ahead bool) error {
	for {
		reply, _, err := r.outbox.Read(ctx, r.topic, "fetch:plan", struct{}{}, false)
		if err != nil {
			return whyUnfetched(err, "Plan", "Failed to load the plan: [fetch:plan] ")
		}
		size := int64(len(reply.Response))
		switch {
		case size > maxPlan:
			return unfetched("Plan", fmt.Sprintf("The plan has %d bytes, over the limit of %d", size, maxPlan))
		case size > smallPlan && ahead:
			return nil
		}
		if waited, err := r.takeRoom(ctx, size); err != nil {
			return err
		} else if waited {
			continue
		}
		plan, err := ParsePlan(reply.Response)
		if err != nil {
			return unfetched("Plan", err.Error())
		}
		r.Plan = plan
		r.limit(r.Limits.override(plan.Options))
		return nil
	}
}

// fetchDataclip returns the JSON of the run's input, or nil.
//
// A server that erases what was read answers a second reading with nothing. So what comes after a first one, of which
// nobody knows whether it was answered, is not taken when it is empty: a run must not go ahead on that.
func (r *Run) fetchDataclip(ctx context.Context, id string) (json.RawMessage, error) {
	if id == "" {
		return nil, nil
	}
	doing := "Failed to load dataclip " + delivery.Short(id) + ": "
	reply, again, err := r.outbox.Read(ctx, r.topic, "fetch:dataclip", idPayload{id}, true)
	if err != nil {
		return nil, whyUnfetched(err, "DataClip", doing+"[fetch:dataclip] ")
	}
	body, err := dataclipBody(reply)
	switch {
	case err != nil:
		return nil, unfetched("DataClip", doing+err.Error())
	case again && (body == nil || string(body) == "null"):
		return nil, unfetched("DataClip", doing+"it was read once without an answer, and was empty when it was read again")
	}
	return body, nil
}

// dataclipBody returns the JSON text of a dataclip: the whole of a binary reply (Lightning), or an array of byte
// values (lightning-mock).
func dataclipBody(reply channel.Reply) (json.RawMessage, error) {
	body := bytes.TrimSpace(reply.Response)
	var values []byte // encoding/json takes a text for base64, an array for what it is
	if !reply.Binary && bytes.HasPrefix(body, []byte("[")) && json.Unmarshal(body, &values) == nil {
		body = values
	}
	switch {
	case len(body) == 0:
		return nil, nil
	case !json.Valid(body):
		return nil, errors.New("its body is not JSON")
	}
	return body, nil
}

// fetchCredentials returns the credential of each job that has one, by job id. They are fetched side by side, one that
// several jobs share once.
func (r *Run) fetchCredentials(ctx context.Context, jobs []Job) (map[string]json.RawMessage, error) {
	ids := credentialIDs(jobs)
	bodies, missing := make([]json.RawMessage, len(ids)), make([]string, len(ids))
	var fetching errgroup.Group
	fetching.SetLimit(credentialsAtOnce)
	for i, id := range ids {
		fetching.Go(func() error {
			return r.survive(func() error {
				reply, _, err := r.outbox.Read(ctx, r.topic, "fetch:credential", idPayload{id}, false)
				if why, ok := errors.AsType[delivery.Unread](err); ok {
					missing[i], err = "Failed to load credential "+delivery.Short(id)+": [fetch:credential] "+string(why), nil
				}
				bodies[i] = reply.Response
				return err
			})
		})
	}
	if err := fetching.Wait(); err != nil {
		return nil, err
	}
	missing = slices.DeleteFunc(missing, func(why string) bool { return why == "" })
	fetched := make(map[string]json.RawMessage)
	held, copied := 0, 0
	for i, id := range ids {
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
	case len(missing) > 0:
		why = strings.Join(missing, "\n")
	case held > maxCredentials:
		why = fmt.Sprintf("The credentials of the run have %d bytes together, over the limit of %d", held, maxCredentials)
	case copied > maxCopied:
		why = fmt.Sprintf("The credentials of all jobs have %d bytes together, over the limit of %d: each job is given its own copy", copied, maxCopied)
	default:
		return credentials, nil
	}
	return nil, unfetched("CredentialLoad", why)
}

const (
	// credentialsAtOnce is how many are asked for side by side: a plan may name very many. Of those that cannot
	// be had, mostMissing are told.
	credentialsAtOnce = 16
	mostMissing       = 20
	// maxCredentials bounds the credentials of a run, in bytes. A process that executes it is given one for each
	// job, of which a plan may have very many, all with the same large one; maxCopied bounds these.
	maxCredentials = 16 << 20
	maxCopied      = 64 << 20
)

// credentialIDs returns the ids of the credentials that have to be fetched, each once.
func credentialIDs(jobs []Job) (ids []string) {
	seen := map[string]bool{"": true}
	for i := range jobs {
		if id, _ := jobs[i].CredentialRef(); !seen[id] {
			seen[id] = true
			ids = append(ids, id)
		}
	}
	return ids
}

// longestWait is how long a run waits for room in its slot, or a quarter of what its token has left: it has to be
// executed yet. Then it goes back, where the server takes it, for later.
const longestWait = 5 * time.Minute

// takeRoom takes room for a plan, and reports whether it had to wait for it. All runs share that room, for a large plan
// takes several times its size for as long as its run lasts.
func (r *Run) takeRoom(ctx context.Context, size int64) (waited bool, err error) {
	if size <= max(smallPlan, r.held) {
		return false, nil
	}
	if r.plans.TryAcquire(size - r.held) {
		r.held = size
		return false, nil
	}
	r.freeRoom()
	end, _ := r.outbox.TokenEnd()
	within := min(longestWait, time.Until(end)/4)
	ctx, cancel := context.WithTimeoutCause(ctx, within, Postpone(time.Minute, fmt.Sprintf(
		"other large plans have left no room for this one, of %d bytes, for %v", size, within.Round(time.Second))))
	defer cancel()
	if err := r.plans.Acquire(ctx, size); err != nil {
		return true, context.Cause(ctx)
	}
	r.held = size
	return true, nil
}

func (r *Run) freeRoom() {
	r.plans.Release(r.held)
	r.held = 0
}
