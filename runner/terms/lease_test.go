package terms

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/claim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// A lease is compared by both of its readings: the wall clock goes on while the machine
// sleeps, the monotonic one is never set back. No fake clock has two that differ.
func TestALeaseHasBothReadings(t *testing.T) {
	require.Contains(t, time.Now().String(), "m=", "which stands for a monotonic reading")
	l := NewLease(claim.Run{Claimed: time.Now(), Lease: time.Minute})
	require.Contains(t, l.until.Load().String(), "m=")
	l.extend(time.Now(), time.Minute)
	require.Contains(t, l.until.Load().String(), "m=")
}
