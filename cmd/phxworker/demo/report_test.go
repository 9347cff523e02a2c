package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/lightning"
)

// at returns a moment so many milliseconds after the runs were queued.
func at(ms int) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

func record(queue string, state mockserver.State, claimed, finished int) mockserver.RunRecord {
	var r mockserver.RunRecord
	r.State, r.Queue, r.EnqueuedAt = state, queue, at(0)
	if claimed > 0 {
		r.ClaimedAt, r.Group = at(claimed), "manual>*"
		if queue == "fast_lane" {
			r.Group = queue
		}
	}
	if finished > 0 {
		r.FinishedAt, r.Reason = at(finished), "success"
	}
	return r
}

func scenery() snapshot {
	failed := record("default", lightning.Failed, 7, 1350)
	failed.Reason, failed.ErrorType = "fail", "JobError"
	failed.ErrorMessage = "the\nstock " + strings.Repeat("is low, ", 12)
	return snapshot{
		runs: []run{
			{plan("quick", "fast_lane", "success", ""), record("fast_lane", lightning.Success, 4, 27)},
			{plan("bad", "", "fail", "JobError"), failed},
			{plan("under-way", "manual", "success", ""), record("manual", lightning.Started, 30, 0)},
			{plan("patient", "manual", "success", ""), record("manual", lightning.Available, 0, 0)},
		},
	}
}

//nolint:dupword // a queue and its group have one name
func TestPrintReport(t *testing.T) {
	var out bytes.Buffer
	printReport(&out, width, scenery(), time.Second)
	require.Equal(t, `
RUN        QUEUE      GROUP      REASON   WAITED  TOOK
quick      fast_lane  fast_lane  success  4.0 ms  23 ms
bad        default    manual>*   fail     7.0 ms  1.34 s
under-way  manual     manual>*   started
patient    manual                available

RUN  WHAT WENT WRONG
bad  JobError: the stock is low, is low, is low, is low, is low, is low, …

`, out.String())
}

func TestLinesTellEachStartAndEndOnceInTheOrderOfTime(t *testing.T) {
	var out bytes.Buffer
	shown := &lines{out: &out, shown: make(map[string]stage)}
	now := scenery()
	shown.show(now)
	shown.show(now)
	now.runs[2].record = record("manual", lightning.Success, 30, 40)
	shown.show(now)
	require.Equal(t, []string{
		"start  quick, queue fast_lane",
		"start  bad, queue default",
		"end    quick: success",
		"start  under-way, queue manual",
		"end    bad: fail, JobError: the stock " + strings.TrimSuffix(strings.Repeat("is low, ", 12), " "),
		"end    under-way: success",
	}, strings.Split(strings.TrimSpace(out.String()), "\n"))
}

func TestShort(t *testing.T) {
	for d, want := range map[time.Duration]string{
		0: "0.0 ms", 840 * time.Microsecond: "0.8 ms", 12 * time.Millisecond: "12 ms",
		999 * time.Millisecond: "999 ms", 1250 * time.Millisecond: "1.25 s",
	} {
		require.Equal(t, want, short(d))
	}
}
