package claim_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/slots"
)

func TestAClaimThatFailsFreesItsSlotAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		o.answer = fails(errGone)
		l := runLoop(t, "manual:2", o, claim.Config{Options: claim.Options{DemandAll: true}})
		require.Equal(t, slots.Counts{Size: 2, Open: 2}, l.pool.Counts())
		time.Sleep(10 * time.Minute)
		requireGrowth(t, gaps(o.asks("manual")), time.Second, 10*time.Second)

		o.enqueue("manual", 1)
		o.set(func(o *outside) { o.answer = nil })
		time.Sleep(10 * time.Second)
		require.Equal(t, []string{"r1"}, o.runs(""))
	})
}

func TestAFailureIsLoggedWhenItChanges(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		o := newOutside()
		o.answer = fails(errGone)
		l := runLoop(t, "manual:1", o, claim.Config{Logger: logger})
		time.Sleep(time.Hour)
		require.Equal(t, 1, count(book(), "level=WARN msg=\"claim failed, the loop keeps trying\" group=manual error=\"the connection is gone\""), book())

		o.set(func(o *outside) { o.answer = fails(context.DeadlineExceeded) })
		time.Sleep(time.Hour)
		require.Equal(t, 2, count(book(), "level=WARN"), book())

		o.set(func(o *outside) { o.answer = nil })
		time.Sleep(time.Hour)
		require.Equal(t, 1, count(book(), "level=INFO msg=\"claims are answered again\""), book())
		require.Equal(t, 3, count(book(), "\n"), book())

		stats := l.Stats().Claims
		require.Equal(t, stats.Total(), stats.Failed+stats.Empty)
		require.Greater(t, stats.Failed, uint64(600))
		require.Greater(t, stats.Empty, uint64(300))
	})
}

func TestLoopThatCannotWorkSaysSo(t *testing.T) {
	o := newOutside()
	pool := slots.NewPool(slots.Plain(1)[0])
	tests := []struct {
		name  string
		cfg   claim.Config
		field string
	}{
		{name: "nothing set", cfg: claim.Config{}, field: "Pool"},
		{name: "no claimer", cfg: claim.Config{Pool: pool, Starter: o}, field: "Claimer"},
		{name: "no starter", cfg: claim.Config{Pool: pool, Claimer: o}, field: "Starter"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			err := claim.NewLoop(tt.cfg).Run(t.Context(), t.Context())
			var missing *claim.ConfigError
			require.ErrorAs(t, err, &missing)
			require.Equal(t, tt.field, missing.Field)
			require.ErrorContains(t, err, "Config."+tt.field+" is not set")
		})
	}
}
