package runner

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/phxworker/phxworker/channel"
)

type idPayload struct {
	ID string `json:"id"`
}

// fetchPlan fetches and reads the plan of a run.
func fetchPlan(ctx context.Context, topic *channel.Topic) (*Plan, error) {
	reply, _, err := get(ctx, topic, "fetch:plan", struct{}{})
	if err != nil {
		return nil, fetchFailure(err, "PlanError", "Failed to load the plan: [fetch:plan] %s")
	}
	plan, err := ParsePlan(reply.Response)
	if err != nil {
		return nil, &Failure{Reason: Exception, Type: "PlanError", Message: err.Error()}
	}
	return plan, nil
}

// fetchDataclip returns the JSON of the run's input, or nil.
func fetchDataclip(ctx context.Context, topic *channel.Topic, id string) (json.RawMessage, error) {
	if id == "" {
		return nil, nil
	}
	reply, again, err := get(ctx, topic, "fetch:dataclip", idPayload{id})
	if err != nil {
		return nil, fetchFailure(err, "DataClipError", "Failed to load dataclip "+id+": [fetch:dataclip] %s")
	}
	body, err := dataclipBody(reply)
	if err != nil {
		return nil, &Failure{Reason: Exception, Type: "DataClipError", Message: fmt.Sprintf("Failed to load dataclip %s: %s", id, err)}
	}
	if again && string(body) == "null" {
		// A server that erases what was read answers a second reading with
		// nothing, and a run must not go ahead on that silently.
		return nil, &Failure{
			Reason: Exception, Type: "DataClipError",
			Message: "Failed to load dataclip " + id + ": the connection was lost while it was read, and it was empty afterwards",
		}
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

// fetchCredentials returns the credential of each job that has one, by job id.
// One that several jobs share is fetched once.
func fetchCredentials(ctx context.Context, topic *channel.Topic, jobs []Job) (map[string]json.RawMessage, error) {
	var credentials map[string]json.RawMessage
	fetched := make(map[string]json.RawMessage)
	var missing []string
	for i := range jobs {
		id, body := jobs[i].CredentialRef()
		if id != "" {
			known, ok := fetched[id]
			if !ok {
				reply, _, err := get(ctx, topic, "fetch:credential", idPayload{id})
				var refused *channel.RefusedError
				if err != nil && !errors.As(err, &refused) {
					return nil, err
				}
				if err != nil {
					missing = append(missing, fmt.Sprintf("Failed to load credential %s: [fetch:credential] %s", id, response(refused)))
				}
				known = append(json.RawMessage(nil), reply.Response...)
				fetched[id] = known
			}
			body = known
		}
		if body == nil {
			continue
		}
		if credentials == nil {
			credentials = make(map[string]json.RawMessage)
		}
		credentials[jobs[i].ID] = body
	}
	if missing != nil {
		return nil, &Failure{Reason: Exception, Type: "CredentialLoadError", Message: strings.Join(missing, "\n")}
	}
	return credentials, nil
}

// get pushes a read, as often as it takes: reading twice does no harm, and a
// run must not be lost for a reply that was. again reports whether it was sent
// more than once.
func get(ctx context.Context, topic *channel.Topic, event string, payload any) (reply channel.Reply, again bool, err error) {
	for {
		reply, err = topic.Push(ctx, event, payload)
		switch {
		case errors.Is(err, channel.ErrOutcomeUnknown):
			again = true
		case !errors.Is(err, channel.ErrNotSent):
			return reply, again, err
		}
		if _, err := topic.Ready(ctx); err != nil {
			return channel.Reply{}, again, err
		}
	}
}

// fetchFailure makes a refusal an Exception with its response in the message;
// any other error stays what it is.
func fetchFailure(err error, errorType, format string) error {
	var refused *channel.RefusedError
	if !errors.As(err, &refused) {
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
