package claim_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
)

func TestARunWithABadTokenIsRefusedAndTheLoopGoesOn(t *testing.T) {
	lightning, stranger := newKey(t), newKey(t)
	verifier := lightning.verifier(t)
	synctest.Test(t, func(t *testing.T) {
		logger, book := logBook()
		o := newOutside()
		bad := claim.Run{ID: "bad", Token: stranger.sign(t, "bad")}
		good := claim.Run{ID: "good", Token: lightning.sign(t, "good")}
		o.queued["manual"] = []claim.Run{bad, good}
		l := runLoop(t, "manual:2", o, claim.Config{Verifier: verifier, Logger: logger})
		require.Empty(t, o.runs(""))
		require.Equal(t, 2, l.pool.Counts().Open, "its slot is free")

		time.Sleep(2 * time.Second)
		require.Equal(t, []string{"good"}, o.runs(""))
		require.Equal(t, 1, count(book(), "level=ERROR"), book())
		require.Contains(t, book(), "run_id=bad")
		require.Contains(t, book(), "signature is invalid")
		require.NotContains(t, book(), bad.Token)
		require.Equal(t, uint64(1), l.Stats().Refused)
		require.Equal(t, uint64(1), l.Stats().Started)
	})
}

func TestABadTokenAmongGoodOnesStopsOnlyItsRun(t *testing.T) {
	lightning, stranger := newKey(t), newKey(t)
	verifier := lightning.verifier(t)
	synctest.Test(t, func(t *testing.T) {
		o := newOutside()
		for _, id := range []string{"r1", "r2", "r3"} {
			signer := lightning
			if id == "r2" {
				signer = stranger
			}
			o.queued["manual"] = append(o.queued["manual"], claim.Run{ID: id, Token: signer.sign(t, id)})
		}
		l := runLoop(t, "manual:3", o, claim.Config{Verifier: verifier, Options: claim.Options{DemandAll: true}})
		require.Equal(t, []string{"r1", "r3"}, o.runs(""))
		require.Equal(t, 1, l.pool.Counts().Open)
	})
}
