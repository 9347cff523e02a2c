package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/phxworker/phxworker/channel"
)

// fetcher reads from a run's topic what the run needs. Reading the plan or a
// credential twice does no harm, so such a read is repeated until it has an
// answer; the input is another matter, see dataclip.
type fetcher struct {
	topic    *channel.Topic
	patience patience
	log      *slog.Logger
}

type idPayload struct {
	ID string `json:"id"`
}

// maxPlan is the largest plan that is executed, in bytes: what Lightning takes
// in one message, and far more than a workflow has.
const maxPlan = 11_000_000

func (f *fetcher) plan(ctx context.Context) (*Plan, error) {
	reply, err := f.get(ctx, "fetch:plan", struct{}{})
	if err != nil {
		return nil, fetchFailure(err, "PlanError", "Failed to load the plan: [fetch:plan] %s")
	}
	if len(reply.Response) > maxPlan {
		return nil, &Failure{
			Reason: Exception, Type: "PlanError",
			Message: fmt.Sprintf("The plan has %d bytes, over the limit of %d", len(reply.Response), maxPlan),
		}
	}
	plan, err := ParsePlan(reply.Response)
	if err != nil {
		return nil, &Failure{Reason: Exception, Type: "PlanError", Message: err.Error()}
	}
	return plan, nil
}

// dataclip returns the JSON of the run's input, or nil.
//
// A server that erases what was read answers a second reading with nothing. So
// the first one is waited for while the join lives, and what comes after a join
// was lost is not taken when it is empty: a run must not go ahead on that.
func (f *fetcher) dataclip(ctx context.Context, id string) (json.RawMessage, error) {
	if id == "" {
		return nil, nil
	}
	failed := func(why string) error {
		return &Failure{Reason: Exception, Type: "DataClipError", Message: "Failed to load dataclip " + id + ": " + why}
	}
	again := false
	for {
		reply, err := f.patience.push(ctx, f.topic, "fetch:dataclip", idPayload{id})
		switch {
		case err == nil:
			body, err := dataclipBody(reply)
			if err != nil {
				return nil, failed(err.Error())
			}
			if again && (body == nil || string(body) == "null") {
				return nil, failed("the connection was lost while it was read, and it was empty afterwards")
			}
			return body, nil
		case errors.Is(err, errTokenOver):
			return nil, failed(errTokenOver.Error())
		case errors.Is(err, channel.ErrOutcomeUnknown):
			again = true
		case !errors.Is(err, channel.ErrNotSent):
			return nil, fetchFailure(err, "DataClipError", "Failed to load dataclip "+id+": [fetch:dataclip] %s")
		}
		if _, err := joined(ctx, f.topic); err != nil {
			return nil, err
		}
	}
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
	var ids []string // in the order of the jobs
	var fetching sync.WaitGroup
	for i := range jobs {
		id, _ := jobs[i].CredentialRef()
		if id == "" || answers[id] != nil {
			continue
		}
		a := new(answer)
		answers[id], ids = a, append(ids, id)
		fetching.Go(func() { a.reply, a.err = f.get(ctx, "fetch:credential", idPayload{id}) })
	}
	fetching.Wait()

	var missing []string
	for _, id := range ids {
		err := answers[id].err
		refused := refusalOf(err)
		switch {
		case refused != nil:
			missing = append(missing, fmt.Sprintf("Failed to load credential %s: [fetch:credential] %s", id, response(refused)))
		case err != nil:
			return nil, err
		}
	}
	if missing != nil {
		return nil, &Failure{Reason: Exception, Type: "CredentialLoadError", Message: strings.Join(missing, "\n")}
	}
	credentials := make(map[string]json.RawMessage)
	for i := range jobs {
		id, body := jobs[i].CredentialRef()
		if id != "" {
			body = append(json.RawMessage(nil), answers[id].reply.Response...)
		}
		if body != nil {
			credentials[jobs[i].ID] = body
		}
	}
	return credentials, nil
}

type answer struct {
	reply channel.Reply
	err   error
}

// credentialsAgain fetches the credentials for the server's sake: it scrubs their
// secrets from the log of a run, but forgets them with each join.
func (f *fetcher) credentialsAgain(ctx context.Context, jobs []Job) {
	if _, err := f.credentials(ctx, jobs); err != nil {
		f.log.Warn("the credentials could not be fetched again after a rejoin; the server will not scrub them from the log", "error", err)
	}
}

// get pushes a read, as often as it takes; on a live join it is repeated once it
// is overdue. A refusal is an answer.
func (f *fetcher) get(ctx context.Context, event string, payload any) (channel.Reply, error) {
	for {
		reply, err := f.getOnce(ctx, event, payload)
		switch {
		case errors.Is(err, errOverdue) && f.patience.over():
			return channel.Reply{}, &Failure{Reason: Exception, Type: "FetchError", Message: "[" + event + "] " + errTokenOver.Error()}
		case errors.Is(err, errOverdue):
			f.log.Warn("the server has not answered; reading again", "event", event, "after", f.patience.overdue)
		case !errors.Is(err, channel.ErrOutcomeUnknown) && !errors.Is(err, channel.ErrNotSent):
			return reply, err
		}
		if _, err := joined(ctx, f.topic); err != nil {
			return channel.Reply{}, err
		}
	}
}

var errOverdue = errors.New("the server has not answered in time")

func (f *fetcher) getOnce(ctx context.Context, event string, payload any) (channel.Reply, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, f.patience.overdue, errOverdue)
	defer cancel()
	return f.topic.Push(ctx, event, payload)
}

// fetchFailure makes a refusal an Exception with its response in the message;
// any other error stays what it is.
func fetchFailure(err error, errorType, format string) error {
	refused := refusalOf(err)
	if refused == nil {
		return err
	}
	return &Failure{Reason: Exception, Type: errorType, Message: fmt.Sprintf(format, response(refused))}
}

// response returns what the server answered: a bare string without its quotes,
// else the JSON.
func response(refused *channel.RefusedError) string {
	var text string
	if json.Unmarshal(refused.Response, &text) == nil {
		return text
	}
	return string(refused.Response)
}
