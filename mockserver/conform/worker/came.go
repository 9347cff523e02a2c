package worker

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

// soFar says in a few words what came, for a failure.
func (l *lab) soFar() string {
	knocks, _ := l.door.requests()
	if len(l.frames) == 0 {
		return plural(len(knocks), "request") + " for a socket, no frame" + l.lastRefusedSocket(knocks)
	}
	var sent []string
	for _, f := range l.frames {
		if f.sent {
			sent = append(sent, f.event)
		}
	}
	const last = 8
	return plural(len(sent), "frame") + " of the worker, the last of them " + strings.Join(sent[max(0, len(sent)-last):], ", ") + l.lastRefusedPush()
}

// lastRefusedSocket says how the latest of the requests for a socket that were refused was answered, if one was.
func (l *lab) lastRefusedSocket(knocks []knock) string {
	for _, k := range slices.Backward(knocks) {
		if k.status != 0 {
			return "; the last to be refused was answered with " + k.why(l.server.Secret())
		}
	}
	return ""
}

// lastRefusedPush says which push was the last that the server refused, or that a topic crashed behind.
func (l *lab) lastRefusedPush() string {
	for _, f := range slices.Backward(l.frames) {
		var reply struct {
			Status   string
			Response json.RawMessage
		}
		switch f.into(&reply); {
		case f.sent:
		case f.event == "phx_error":
			return fmt.Sprintf("; %s was followed by phx_error on %s", l.pushBefore(f, ""), f.topic)
		case f.event == "phx_reply" && reply.Status == "error":
			return fmt.Sprintf("; %s was refused with %s on %s", l.pushBefore(f, f.ref), short(reply.Response), f.topic)
		}
	}
	return ""
}

// pushBefore is the push that an answer is about, for a sentence: the last on its topic, with the ref if it is told.
func (l *lab) pushBefore(answer seen, ref string) string {
	for _, push := range slices.Backward(l.frames[:answer.place]) {
		if push.sent && push.socket == answer.socket && push.topic == answer.topic && (ref == "" || push.ref == ref) {
			return push.event + " " + short(push.payload)
		}
	}
	return "nothing that was seen"
}

// short is the beginning of a payload, for a sentence. Tokens are left out first: half of one would not be known again.
func short(payload json.RawMessage) string {
	const most = 300
	text := suite.Redact(string(payload))
	if len(text) > most {
		return strings.ToValidUTF8(text[:most], "") + "…"
	}
	return text
}

// why says in words what was wrong with a request that was refused.
func (k knock) why(secret string) string {
	answer := fmt.Sprintf("%d %s", k.status, http.StatusText(k.status))
	faults := tokenFaults(k.query.Get("token"), secret)
	switch vsn := k.query.Get("vsn"); {
	case k.byCase:
		return answer + ", as the case has it"
	case k.path != socketPath:
		return fmt.Sprintf("%s: it was for %s, and sockets are at %s", answer, k.path, socketPath)
	case !strings.HasPrefix(vsn, "2.0."):
		return fmt.Sprintf("%s: it had vsn=%s, and the server wants vsn=2.0.0", answer, vsn)
	case len(faults) > 0:
		return fmt.Sprintf("%s: of its token, the server %s", answer, faults[0])
	}
	return answer
}
