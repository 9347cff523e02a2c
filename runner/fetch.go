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

	"github.com/phxworker/phxworker/channel"
)

// fetcher reads from a run's topic what the run needs. Reading the plan or a
// credential twice does no harm, so such a read is repeated while there is hope for an
// answer; the input is another matter, see dataclip.
type fetcher struct {
	run      *Run
	topic    *channel.Topic
	patience patience
	room     *planRoom
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
		reply, _, err := f.read(ctx, "fetch:plan", struct{}{}, false)
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
		if size <= smallPlan || f.room.fits(size) {
			plan, err := ParsePlan(reply.Response)
			if err != nil {
				return nil, &Failure{Reason: Exception, Type: "PlanError", Message: err.Error()}
			}
			return plan, nil
		}
		if err := f.room.wait(ctx, f.patience, size); err != nil {
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
	doing := "Failed to load dataclip " + shortened(id) + ": "
	failed := func(why string) error {
		return &Failure{Reason: Exception, Type: "DataClipError", Message: doing + why}
	}
	reply, again, err := f.read(ctx, "fetch:dataclip", idPayload{id}, true)
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
	answers := make(map[string]*answer)
	ids := credentialIDs(jobs)
	var fetching sync.WaitGroup
	turns := make(chan struct{}, credentialsAtOnce)
	for _, id := range ids {
		a := new(answer)
		answers[id] = a
		turns <- struct{}{}
		fetching.Go(func() {
			defer func() { <-turns }()
			if mistake := f.run.survive(func() error {
				a.reply, _, a.err = f.read(ctx, "fetch:credential", idPayload{id}, false)
				return nil
			}); mistake != nil {
				a.err = mistake
			}
		})
	}
	fetching.Wait()

	var missing []string
	for _, id := range ids {
		err := fetchFailure(answers[id].err, "CredentialLoadError", "Failed to load credential "+shortened(id)+": [fetch:credential] ")
		var failure *Failure
		switch {
		case errors.As(err, &failure):
			missing = append(missing, failure.Message)
		case err != nil:
			return nil, err
		}
	}
	if more := len(missing) - mostMissing; more > 0 {
		missing = append(missing[:mostMissing], fmt.Sprintf("… and %d more", more))
	}
	if missing != nil {
		return nil, &Failure{Reason: Exception, Type: "CredentialLoadError", Message: strings.Join(missing, "\n")}
	}
	credentials := make(map[string]json.RawMessage)
	held, copied := 0, 0
	for _, id := range ids {
		held += len(answers[id].reply.Response)
	}
	for i := range jobs {
		id, body := jobs[i].CredentialRef()
		if id != "" {
			body = answers[id].reply.Response // jobs share it
		} else {
			held += len(body)
		}
		if body != nil {
			credentials[jobs[i].ID] = body
		}
		copied += len(body)
	}
	var why string
	switch {
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

type answer struct {
	reply channel.Reply
	err   error
}

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
		if refusalOf(err) == nil {
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

// A read is given up once it is no passing fault any more: when the server crashed over it
// so often and so long, did not answer it so often, or the connection was lost
// over it manyLosses times.
const (
	mostCrashes    = 5
	crashesFor     = 30 * time.Second
	mostUnanswered = 3
)

// read pushes a read until it is answered; a refusal is an answer. It reports whether an
// earlier one may have been answered as well. large says that the answer may take its time.
func (f *fetcher) read(ctx context.Context, event string, payload any, large bool) (reply channel.Reply, again bool, err error) {
	began := time.Now()
	unanswered, crashed, lost := 0, 0, 0
	var tooLarge *channel.AnswerTooLargeError
	for {
		join, err := joined(ctx, f.topic)
		if err != nil {
			return channel.Reply{}, again, err
		}
		doublings := 0
		if large || unanswered > 0 {
			doublings = 1
		}
		reply, err = f.patience.push(ctx, join, event, payload, doublings)
		switch {
		case err == nil:
			if crashed > 0 {
				f.patience.recovered()
			}
			return reply, again, nil
		case errors.Is(err, errTokenOver):
			return channel.Reply{}, again, &readError{errTokenOver.Error()}
		case errors.As(err, &tooLarge):
			return channel.Reply{}, again, &readError{tooMuchToRead(event, tooLarge)}
		case errors.As(err, new(*channel.TooLargeError)), errors.Is(err, channel.ErrPayload):
			return channel.Reply{}, again, &readError{err.Error()}
		case errors.Is(err, channel.ErrNotSent):
			continue
		case !errors.Is(err, channel.ErrOutcomeUnknown):
			return channel.Reply{}, again, err
		case errors.Is(err, channel.ErrUnanswered):
			unanswered++
			f.run.log.Warn("the server has not answered a read; its topic is joined anew", "event", event)
		case errors.Is(err, channel.ErrCrashed):
			crashed++
		default:
			lost++
		}
		again = true
		took := time.Since(began)
		if crashed >= mostCrashes && took >= crashesFor || unanswered >= mostUnanswered || lost >= manyLosses {
			return channel.Reply{}, again, givenUp(took, crashed, unanswered, lost)
		}
	}
}

// tooMuchToRead says it to who reads the run's log.
func tooMuchToRead(event string, e *channel.AnswerTooLargeError) string {
	option := ""
	if event == "fetch:dataclip" { // all else has a limit of its own
		option = " (its option --read-limit)"
	}
	return fmt.Sprintf("the server's answer has more than the %d bytes that this worker reads%s", e.Limit, option)
}

// readError is why a read was given up.
type readError struct{ why string }

func (e *readError) Error() string { return e.why }

func givenUp(after time.Duration, crashed, unanswered, lost int) *readError {
	var why []string
	for _, c := range []struct {
		times int
		what  string
	}{{crashed, "the server's channel crashed over it"}, {unanswered, "the server did not answer it"}, {lost, "the connection was lost over it"}} {
		if c.times > 0 {
			why = append(why, fmt.Sprintf("%s, %d times", c.what, c.times))
		}
	}
	return &readError{fmt.Sprintf("given up after %v: %s", after.Round(time.Second), strings.Join(why, "; "))}
}

// fetchFailure makes an Exception of a read that was refused, with the response in its
// message, or given up; any other error stays what it is.
func fetchFailure(err error, errorType, doing string) error {
	var why string
	var gaveUp *readError
	switch refused := refusalOf(err); {
	case refused != nil:
		why = response(refused)
	case errors.As(err, &gaveUp):
		why = gaveUp.why
	default:
		return err
	}
	return &Failure{Reason: Exception, Type: errorType, Message: doing + why}
}

// response returns what the server answered, its beginning if it is long: a bare string
// without its quotes, else the JSON.
func response(refused *channel.RefusedError) string {
	var text string
	if json.Unmarshal(refused.Response, &text) == nil {
		return shortened(text)
	}
	return shortened(string(refused.Response))
}

// shortened cuts what a server has to say about a run: it is kept, with others, for the
// status, and goes back to the server.
func shortened(text string) string {
	const most = 1000
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most], "") + "…"
}
