package web

import (
	"fmt"
	"math"
	"strconv"
)

// Seconds is a time span that is a number for programs and short for people.
type Seconds float64

// String returns the span with one or two units: "0.4 ms", "340 ms", "12 s", "3 min 20 s",
// "2 h 5 min", "4 d 2 h".
func (s Seconds) String() string {
	n := int(math.Round(float64(s)))
	switch {
	case s <= 0:
		return "0 s"
	case s < 0.00995:
		return strconv.FormatFloat(float64(s)*1000, 'f', 1, 64) + " ms"
	case s < 0.9995:
		return strconv.Itoa(int(math.Round(float64(s)*1000))) + " ms"
	case s < 9.95:
		return strconv.FormatFloat(float64(s), 'f', 1, 64) + " s"
	case n < 60:
		return fmt.Sprintf("%d s", n)
	case n < 3600:
		return fmt.Sprintf("%d min %d s", n/60, n%60)
	case n < 86400:
		return fmt.Sprintf("%d h %d min", n/3600, n%3600/60)
	}
	return fmt.Sprintf("%d d %d h", n/86400, n%86400/3600)
}
