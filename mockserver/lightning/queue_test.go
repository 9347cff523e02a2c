package lightning

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// The queues must hand out what a sort of all available runs would: the ORDER BY
// of Lightning's query, which they avoid.
func TestQueuesAgreeWithASort(t *testing.T) {
	random := rand.New(rand.NewPCG(1, 2))
	names := []string{"manual", "fast_lane", "default", "other"}
	claims := [][]string{
		{"manual", "*"}, {"*"}, {"*", "fast_lane"}, {"fast_lane"}, {"other", "manual"}, {"fast_lane", "*", "manual"},
	}
	q := newQueues()
	var all []*Entry
	for seq := range uint64(3000) {
		if random.IntN(3) > 0 {
			r := &Entry{seq: seq, queue: names[random.IntN(len(names))], priority: Priority(random.IntN(2))}
			q.push(r)
			all = append(all, r)
			continue
		}
		claim := claims[random.IntN(len(claims))]
		want, rest := sorted(all, claim, random.IntN(3))
		require.Equal(t, want, q.take(len(want), claim, nil))
		all = rest
		require.Equal(t, len(all), q.size)
	}
}

// sorted takes the first runs for a claim from all, the slow way.
func sorted(all []*Entry, claim []string, demand int) (first, rest []*Entry) {
	position := func(r *Entry) int {
		i := slices.Index(claim, r.queue)
		if !slices.Contains(claim, wildcard) {
			return min(i, 0) // a filter: in or out
		}
		if i < 0 {
			i = slices.Index(claim, wildcard)
		}
		return i
	}
	for _, r := range all {
		if position(r) >= 0 {
			first = append(first, r)
		}
	}
	slices.SortStableFunc(first, func(a, b *Entry) int {
		if d := position(a) - position(b); d != 0 {
			return d
		}
		if d := int(b.priority) - int(a.priority); d != 0 {
			return d
		}
		return int(a.seq) - int(b.seq)
	})
	first = first[:min(demand, len(first))]
	if len(first) == 0 {
		return nil, all
	}
	for _, r := range all {
		if !slices.Contains(first, r) {
			rest = append(rest, r)
		}
	}
	return first, rest
}

// A queue that never empties is compacted while in use.
func TestQueueStaysSmall(t *testing.T) {
	var f fifo
	next := uint64(0)
	for seq := range uint64(100_000) {
		f.push(&Entry{seq: seq})
		if seq >= 2000 {
			require.Equal(t, next, f.pop().seq)
			next++
		}
	}
	require.Equal(t, 2000, f.len())
	require.Less(t, cap(f.runs), 20_000)
}

func TestConfigNeedsASecret(t *testing.T) {
	_, err := New(Config{})
	require.ErrorContains(t, err, "Config.Secret")
}
