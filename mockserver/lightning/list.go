package lightning

import (
	"slices"
	"strings"
	"time"
)

// Summary is a run in one line: what [RunRecord] has of it, without what can be large.
type Summary struct {
	ID           string    `json:"id"`
	Name         string    `json:"name,omitempty"` // of the workflow
	State        State     `json:"state"`
	Reason       string    `json:"reason,omitempty"`
	ErrorType    string    `json:"error_type,omitempty"`
	ErrorMessage string    `json:"error_message,omitempty"` // its first 300 bytes
	Queue        string    `json:"queue"`
	Priority     Priority  `json:"priority"`
	Group        string    `json:"group,omitempty"`  // as in [RunRecord]
	Worker       string    `json:"worker,omitempty"` // likewise
	WorkerName   string    `json:"worker_name,omitempty"`
	EnqueuedAt   time.Time `json:"enqueued_at"`
	ClaimedAt    time.Time `json:"claimed_at,omitzero"`
	StartedAt    time.Time `json:"started_at,omitzero"`
	FinishedAt   time.Time `json:"finished_at,omitzero"`
	Events       int       `json:"events"` // how many came
	Faults       int       `json:"faults"` // how many struck
	// Cursor is the run's place in the list; see [Query].
	Cursor uint64 `json:"cursor"`
}

// Query says which runs to list. The zero value is all, as far as Limit goes.
type Query struct {
	// States are those to list. Defaults to all.
	States []State
	// Queue is the queue that they were put into. Defaults to any.
	Queue string
	// Worker is the worker_id, or the name, of who has them, or had them when they ended. Defaults to any.
	Worker string
	// Text is in the id, the name, the error or the worker of the runs, in upper or lower case.
	// Defaults to any.
	Text string
	// After is the cursor of the last run of the page before. Defaults to the first page.
	After uint64
	// Limit is how many to list. Defaults to 50, and is 1,000 at most.
	Limit int
}

// Page is a part of the list of runs.
type Page struct {
	Runs []Summary `json:"runs"`
	// Next is the [Query].After of the next page, zero if there is none.
	Next uint64 `json:"next,omitzero"`
}

const (
	defaultLimit = 50
	maxLimit     = 1000
	// maxShort is how much of an error's message a summary has, and a search looks at, in bytes.
	maxShort = 300
)

// List returns the runs that the query asks for, those queued last first.
func (s *Service) List(q Query) Page {
	limit := min(q.Limit, maxLimit)
	if limit <= 0 {
		limit = defaultLimit
	}
	text := strings.ToLower(q.Text)
	page := Page{Runs: []Summary{}}
	s.Lock()
	defer s.Unlock()
	from := len(s.kept.runs)
	if q.After > 0 {
		from, _ = s.kept.search(q.After)
	}
	for i := from - 1; i >= s.kept.head; i-- {
		r := s.kept.runs[i]
		if !r.is(q, text) {
			continue
		}
		if len(page.Runs) == limit {
			page.Next = page.Runs[limit-1].Cursor
			break
		}
		page.Runs = append(page.Runs, r.summaryLocked())
	}
	return page
}

// is reports whether a query asks for the run; text is its text in lower case.
func (r *Entry) is(q Query, text string) bool {
	switch {
	case len(q.States) > 0 && !slices.Contains(q.States, r.state),
		q.Queue != "" && q.Queue != r.queue,
		q.Worker != "" && q.Worker != r.worker && q.Worker != r.workerName:
		return false
	}
	if text == "" {
		return true
	}
	for _, field := range []string{r.id, r.name, r.result.ErrorType, short(r.result.ErrorMessage), r.worker, r.workerName} {
		if strings.Contains(strings.ToLower(field), text) {
			return true
		}
	}
	return false
}

func (r *Entry) summaryLocked() Summary {
	return Summary{
		ID: r.id, Name: r.name, State: r.state,
		Reason: r.result.Reason, ErrorType: r.result.ErrorType, ErrorMessage: short(r.result.ErrorMessage),
		Queue: r.queue, Priority: r.priority, Group: r.group, Worker: r.worker, WorkerName: r.workerName,
		EnqueuedAt: r.enqueued, ClaimedAt: r.claimed, StartedAt: r.started, FinishedAt: r.finished,
		Events: len(r.events), Faults: len(r.faults), Cursor: r.seq,
	}
}

// short cuts a text, at a character, and keeps nothing alive of what it cuts off.
func short(text string) string {
	if len(text) <= maxShort {
		return text
	}
	return strings.ToValidUTF8(strings.Clone(text[:maxShort]), "") + "…"
}

// Waited returns for how long the run was, or is by now, in the queue.
func (r Summary) Waited(now time.Time) time.Duration {
	switch {
	case !r.ClaimedAt.IsZero():
		now = r.ClaimedAt
	case !r.FinishedAt.IsZero():
		now = r.FinishedAt
	}
	return now.Sub(r.EnqueuedAt)
}

// Took returns the time from the claim to the end, or until now; zero before the claim.
func (r Summary) Took(now time.Time) time.Duration {
	if r.ClaimedAt.IsZero() {
		return 0
	}
	if !r.FinishedAt.IsZero() {
		now = r.FinishedAt
	}
	return now.Sub(r.ClaimedAt)
}
