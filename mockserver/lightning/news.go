package lightning

import (
	"context"
	"encoding/json"
	"log/slog"
)

// What a person at a terminal wants to see happen, at level info. Workers in
// benchmarks end thousands of runs a second, so nothing is prepared for a line
// that nobody asked for.

// logJoin tells what a worker says it can hold.
func (s *Service) logJoin(worker string, payload []byte) {
	if !s.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	attrs := []any{"worker", worker}
	var told struct{ Capacity, Queues json.RawMessage }
	_ = json.Unmarshal(payload, &told) // whatever it is, the worker is let in
	if told.Capacity != nil {
		attrs = append(attrs, "capacity", string(told.Capacity))
	}
	if told.Queues != nil {
		attrs = append(attrs, "queues", string(told.Queues))
	}
	s.log.Info("worker joined", attrs...)
}

// logEnd tells how a run ended. What its error says is not in the log: it may
// quote the data of the run.
func (s *Service) logEnd(r *run) {
	if !s.log.Enabled(context.Background(), slog.LevelInfo) {
		return
	}
	s.mu.Lock()
	attrs := []any{"run_id", r.id, "reason", r.result.Reason}
	if r.result.ErrorType != "" {
		attrs = append(attrs, "error_type", r.result.ErrorType)
	}
	attrs = append(attrs, "queue", r.queue)
	if r.workerName != "" {
		attrs = append(attrs, "worker_name", r.workerName)
	}
	s.mu.Unlock()
	s.log.Info("run ended", attrs...)
}
