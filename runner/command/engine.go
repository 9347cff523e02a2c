package command

import (
	"context"
	"encoding/json"
	"math"

	"github.com/phxworker/phxworker/runner"
)

// Engine executes plans with any program that speaks the protocol of
// docs/engine-protocol.md. It sends the plan as the server gave it.
type Engine struct{ pool *Pool }

var (
	_ runner.Engine     = (*Engine)(nil)
	_ runner.Checker    = (*Engine)(nil)
	_ runner.Notifiable = (*execution)(nil)
)

// New returns an engine with a pool of its own; see [NewPool]. It must be
// closed.
func New(cfg Config) (*Engine, error) {
	pool, err := NewPool(cfg)
	if err != nil {
		return nil, err
	}
	return &Engine{pool: pool}, nil
}

// Prepare finds out which versions the program names. They are known once one
// of its processes is ready, so the first run waits for that.
func (e *Engine) Prepare(ctx context.Context, run *runner.Run) (runner.Execution, error) {
	versions, err := e.pool.Versions(ctx)
	if err != nil {
		return nil, err
	}
	x := &execution{notices: make(chan json.RawMessage, mostNotices)}
	x.Execution = runner.Prepared(versions, func(ctx context.Context) (runner.Result, error) {
		return e.pool.Execute(ctx, run, Request{
			Run: newRunBody(run), Owner: run.Plan.Owner(), MemoryMB: int(math.Ceil(run.Limits.MemoryMB)), LimitMB: run.Limits.MemoryMB, Notices: x.notices,
		})
	})
	return x, nil
}

// execution is a run for one of the processes, which gets its notices as well; see
// docs/engine-protocol.md.
type execution struct {
	runner.Execution

	notices chan json.RawMessage
}

// mostNotices is how many notices wait for a process that does not read them.
// Those that come then are dropped.
const mostNotices = 16

// Notify implements [runner.Notifiable].
func (x *execution) Notify(_ context.Context, notice json.RawMessage) {
	select {
	case x.notices <- notice:
	default:
	}
}

// Check implements [runner.Checker]; see [Pool.Check].
func (e *Engine) Check(ctx context.Context) error { return e.pool.Check(ctx) }

// Processes returns how many processes there are; see [Pool.Processes].
func (e *Engine) Processes() int { return e.pool.Processes() }

// Close ends the processes; see [Pool.Close].
func (e *Engine) Close() error { return e.pool.Close() }

// runBody is a run as the program gets it.
type runBody struct {
	ID          string                     `json:"id"`
	Plan        json.RawMessage            `json:"plan"`
	Input       json.RawMessage            `json:"input"`       // null if there is none
	Credentials map[string]json.RawMessage `json:"credentials"` // by job id
	Limits      limitsBody                 `json:"limits"`
	JobLogLevel string                     `json:"job_log_level"`
}

type limitsBody struct {
	RunTimeoutMS int64   `json:"run_timeout_ms"`
	RunMemoryMB  float64 `json:"run_memory_mb"`
	StateMB      float64 `json:"state_mb"` // 0 for none of its own
	PayloadMB    float64 `json:"payload_mb"`
	LogPayloadMB float64 `json:"log_payload_mb"`
}

func newRunBody(run *runner.Run) runBody {
	body := runBody{
		ID: run.ID, Plan: run.Plan.Raw, Input: run.Input, Credentials: make(map[string]json.RawMessage),
		Limits: limitsBody{
			RunTimeoutMS: run.Limits.RunTimeout.Milliseconds(), RunMemoryMB: run.Limits.MemoryMB, StateMB: run.Limits.StateLimitMB(),
			PayloadMB: max(run.Limits.PayloadMB, 0), LogPayloadMB: max(run.Limits.LogPayloadMB, 0),
		},
		JobLogLevel: run.Limits.JobLogLevel,
	}
	for i := range run.Plan.Jobs {
		id := run.Plan.Jobs[i].ID
		if credential := run.Credential(id); credential != nil {
			body.Credentials[id] = credential
		}
	}
	return body
}
