package slots_test

import (
	"testing"

	"github.com/phxworker/phxworker/slots"
)

// BenchmarkSlotLife is what every run costs here: reserve, fill, free. The one
// allocation is the Slot.
func BenchmarkSlotLife(b *testing.B) {
	pool := slots.NewPool(slots.Plain(1)[0])
	b.ReportAllocs()
	for b.Loop() {
		slot, ok := pool.Reserve()
		if !ok {
			b.Fatal("no slot is open")
		}
		slot.Fill()
		slot.Free()
	}
}
