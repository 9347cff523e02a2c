package lightning

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAPulseForgetsWhatIsOverAMinuteOld(t *testing.T) {
	var p pulse
	begin := time.Unix(1_800_000_000, 0)
	after := func(seconds int) time.Time { return begin.Add(time.Duration(seconds) * time.Second) }
	require.Zero(t, p.sum(begin))
	p.count(begin)
	p.count(after(30))
	p.count(after(30))
	require.Equal(t, 3, p.sum(after(59)))
	require.Equal(t, 2, p.sum(after(60)))
	require.Equal(t, 2, p.sum(after(89)))
	require.Zero(t, p.sum(after(90)))
	p.count(after(100_000))
	require.Equal(t, 1, p.sum(after(100_001)))
	require.Equal(t, 1, p.sum(after(100_000)), "a clock that was set back")
}
