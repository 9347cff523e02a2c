package phoenix_test

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform"
	"github.com/phxworker/phxworker/mockserver/conform/server"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

// The server of this folder, on its stand-in for Phoenix, does all that is asked of a server, unless it says that it does not.
func TestThePhoenixServerConforms(t *testing.T) {
	p := servePhoenix(t, "lease_ms=2000", "ack_ms=1500", "silence_ms=2000", "interval_ms=500")
	conform.Server(t, server.Shared(p.target()), suite.Options{Expected: []string{}})
}

// target is the server for the kit.
func (p *phoenix) target() server.Target {
	return server.Target{
		URL: "ws://127.0.0.1:" + p.port + "/worker", Secret: "mock-worker-secret",
		Enqueue: p.queue,
		Cancel: func(_ context.Context, id, message string) error {
			return p.do(`RunQueue.cancel(%q, %q)`, id, message)
		},
		Notify: func(_ context.Context, id string, notice json.RawMessage) error {
			return p.do(`RunQueue.notify(%q, %s)`, id, elixirJSON(notice))
		},
		Drain: func(context.Context) error { return p.do(`RunQueue.drain()`) },
	}
}

func (p *phoenix) queue(_ context.Context, run mockserver.Run) (string, error) {
	if run.Key != "" || run.Priority != mockserver.Normal {
		return "", fmt.Errorf("%w: it has neither keys nor priorities", server.ErrCannot)
	}
	var plan map[string]any
	if err := json.Unmarshal(run.Plan, &plan); err != nil {
		return "", err
	}
	id, _ := plan["id"].(string)
	if run.Dataclip != nil {
		plan["dataclip_id"] = "the input of " + id
	}
	text, err := json.Marshal(plan)
	if err != nil {
		return "", err
	}
	fields := fmt.Sprintf(`id: %q, plan: %s`, id, elixirJSON(text))
	if run.Queue != "" {
		fields += fmt.Sprintf(`, queue: %q`, run.Queue)
	}
	if run.Dataclip != nil {
		fields += fmt.Sprintf(`, input: Base.decode64!(%q)`, base64.StdEncoding.EncodeToString(run.Dataclip))
	}
	if run.Credentials != nil {
		bodies, err := json.Marshal(run.Credentials)
		if err != nil {
			return "", err
		}
		fields += `, credentials: ` + elixirJSON(bodies)
	}
	return id, p.do(`RunQueue.enqueue(%%{%s})`, fields)
}

// elixirJSON is an expression for what a JSON text says.
func elixirJSON(text []byte) string {
	return fmt.Sprintf(`elem(Jason.decode(Base.decode64!(%q)), 1)`, base64.StdEncoding.EncodeToString(text))
}

// do has the server do something that says :ok when it is done.
func (p *phoenix) do(format string, args ...any) error {
	if said := p.eval(format, args...); said != ":ok" {
		return fmt.Errorf("the queue says %s", said)
	}
	return nil
}
