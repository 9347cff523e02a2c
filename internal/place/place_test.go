package place

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPlaces(t *testing.T) {
	for text, want := range map[string]Place{
		"TypeError: no\n    at line 2, column 7":                                    {Line: 2, Column: 7},
		"row 9 is bad at line 9, column 1\n    at line 2, column 7":                 {Line: 2, Column: 7},
		"Operation 1 failed at line 2, column 1":                                    {Line: 2, Column: 1},
		`Error reported by "get()" operation line 3:`:                               {Line: 3, Operation: "get"},
		"TypeError: no\n    at vm:module(0):2:23\n    a@1.0.0/bundle.js:7672:57":    {Line: 2},
		"TypeError: no\n    at inner (vm:module(1):3:14)\n    at vm:module(1):5:12": {Line: 3},
		"row 9 is bad at line 9, column 1":                                          {},
		"Operation 1 failed at line 2, column 1, says the adaptor":                  {},
		"no place": {},
	} {
		at, ok := Of("R/T", text)
		require.Equal(t, want, at, text)
		require.Equal(t, want != Place{}, ok, text)
		_, ok = Of("JOB", text)
		require.False(t, ok, text)
	}
}
