package demo

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/lightning"
	"github.com/phxworker/phxworker/mockserver/phoenix"
	"github.com/phxworker/phxworker/slots"
)

// at returns a moment so many milliseconds after the runs were queued.
func at(ms int) time.Time {
	return time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC).Add(time.Duration(ms) * time.Millisecond)
}

func record(queue string, state mockserver.State, claimed, finished int) mockserver.RunRecord {
	r := mockserver.RunRecord{Result: mockserver.Result{State: state}, Queue: queue, EnqueuedAt: at(0)}
	if claimed > 0 {
		r.ClaimedAt = at(claimed)
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
		groups: []phxworker.GroupStats{
			{Name: "fast_lane", Counts: slots.Counts{Size: 1, Running: 1}},
			{Name: "manual>*", Counts: slots.Counts{Size: 4, Running: 2, Claimed: 1, Open: 1}},
		},
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
	printReport(&out, width, scenery(), map[string]string{"quick": "fast_lane", "bad": "manual>*", "under-way": "manual>*"}, time.Second)
	require.Equal(t, `
run        queue      group      reason     waited    took
─────────  ─────────  ─────────  ─────────  ──────  ──────
quick      fast_lane  fast_lane  success    4.0 ms   23 ms
bad        default    manual>*   fail       7.0 ms  1.34 s
under-way  manual     manual>*   started
patient    manual                available

run  what went wrong
───  ─────────────────────────────────────────────────────────────────────
bad  JobError: the stock is low, is low, is low, is low, is low, is low, …

`, out.String())
}

func TestProgress(t *testing.T) {
	require.Equal(t, "fast_lane ●   manual>* ●●◐○   done 2/4", progress(scenery()))
}

func TestLiveLineIsDrawnOverWhenItChanges(t *testing.T) {
	var out bytes.Buffer
	screen := newScreen(&out, true)
	now := snapshot{runs: scenery().runs}
	screen.show(now)
	screen.show(now)
	now.runs = now.runs[:2]
	screen.show(now)
	screen.close()
	require.Equal(t, "\rdone 2/4\x1b[K\rdone 2/2\x1b[K\r\x1b[K", out.String())
}

func TestPlainLinesTellEachStartAndEndOnceInTheOrderOfTime(t *testing.T) {
	var out bytes.Buffer
	screen := newScreen(&out, false)
	now := scenery()
	screen.show(now)
	screen.show(now)
	now.runs[2].record = record("manual", lightning.Success, 30, 40)
	screen.show(now)
	screen.close()
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

func TestClaimedByReadsTheGroupOffTheWire(t *testing.T) {
	exchange := func(socket int, direction phoenix.Direction, text string) mockserver.Exchange {
		return mockserver.Exchange{Socket: socket, Direction: direction, Data: []byte(text)}
	}
	got := claimedBy([]mockserver.Exchange{
		exchange(1, phoenix.FromClient, `["1","5","worker:queue","claim",{"demand":1,"queues":["manual","*"]}]`),
		exchange(2, phoenix.FromClient, `["1","5","worker:queue","claim",{"demand":1,"queues":["fast_lane"]}]`),
		exchange(1, phoenix.FromClient, `["1","6","worker:queue","claim",{"demand":2,"queues":["default"]}]`),
		exchange(1, phoenix.ToClient, `["1","6","worker:queue","phx_reply",{"status":"ok","response":{"runs":[{"id":"c"},{"id":"d"}]}}]`),
		exchange(2, phoenix.ToClient, `["1","5","worker:queue","phx_reply",{"status":"ok","response":{"runs":[{"id":"b"}]}}]`),
		exchange(1, phoenix.ToClient, `["1","5","worker:queue","phx_reply",{"status":"ok","response":{"runs":[{"id":"a"}]}}]`),
		exchange(1, phoenix.FromClient, `["9","9","run:a","phx_jo`),
	})
	require.Equal(t, map[string]string{"a": "manual>*", "b": "fast_lane", "c": "default", "d": "default"}, got)
}
