package demo

import (
	"encoding/json"
	"strings"

	"github.com/phxworker/phxworker/channel/frame"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/phoenix"
)

// claimedBy returns, by run, the slot group that claimed it. It is read off the
// wire: a group's name is the queues of its claims.
func claimedBy(exchanges []mockserver.Exchange) map[string]string {
	type claim struct {
		socket int
		ref    frame.Ref
	}
	group := make(map[string]string)
	asked := make(map[claim]string)
	for _, e := range exchanges {
		f, err := frame.Decode(e.Data, e.Binary)
		if err != nil || f.Topic != "worker:queue" {
			continue // a frame too long for the transcript is no claim
		}
		key := claim{e.Socket, f.Ref}
		if e.Direction == phoenix.FromClient && f.Event == "claim" {
			var request struct{ Queues []string }
			if json.Unmarshal(f.Payload, &request) == nil {
				asked[key] = strings.Join(request.Queues, ">")
			}
			continue
		}
		name, ok := asked[key]
		if !ok || !f.IsReply() {
			continue
		}
		delete(asked, key)
		var reply struct{ Runs []struct{ ID string } }
		if json.Unmarshal(f.Payload, &reply) == nil {
			for _, r := range reply.Runs {
				group[r.ID] = name
			}
		}
	}
	return group
}
