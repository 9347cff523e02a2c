package compile

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A source map agrees with Module.Original at the start of each word.
func TestSourceMap(t *testing.T) {
	bodies := []string{
		"fn(state => state);",
		"const x = 1;\nfn(s => {\n  return s.data.x;\n});\neach($.data.items, post('/x', $.data));\n",
		"get('/a').then(s => s).catch(e => e);\r\nfn(s => '🦆' + s)\u2028fn(s => s)",
	}
	for _, body := range bodies {
		module, err := Compile(Job{Name: "a", Body: body, Adaptors: []Adaptor{{Name: "@openfn/language-http", Exports: []string{"fn", "each", "get", "post"}}}})
		require.NoError(t, err)
		m := module.SourceMap("a.js")
		require.Equal(t, []string{body}, m.SourcesContent)
		require.Len(t, m.Operations, len(module.Operations))
		mapped := 0
		for line, segments := range decode(t, m.Mappings) {
			for _, s := range segments {
				want, ok := module.Original(line+1, s.generated+1, V8)
				require.True(t, ok)
				require.Equal(t, want, s.original)
				mapped++
			}
		}
		require.Greater(t, mapped, len(strings.Fields(body)))
	}
}

type decoded struct {
	generated int
	original  Position
}

// decode reads mappings as the format is written down, apart from the code under test.
func decode(t *testing.T, mappings string) [][]decoded {
	t.Helper()
	var lines [][]decoded
	original := Position{Line: 1, Column: 1}
	for line := range strings.SplitSeq(mappings, ";") {
		var segments []decoded
		generated := 0
		for field := range strings.SplitSeq(line, ",") {
			if field == "" {
				continue
			}
			numbers := numbersOf(field)
			require.Len(t, numbers, 4)
			require.Zero(t, numbers[1])
			generated += numbers[0]
			original.Line += numbers[2]
			original.Column += numbers[3]
			segments = append(segments, decoded{generated, original})
		}
		lines = append(lines, segments)
	}
	return lines
}

func numbersOf(field string) []int {
	var numbers []int
	value, shift := 0, 0
	for _, c := range field {
		digit := strings.IndexRune("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", c)
		value |= (digit & 31) << shift
		shift += 5
		if digit&32 != 0 {
			continue
		}
		number := value >> 1
		if value&1 != 0 {
			number = -number
		}
		numbers = append(numbers, number)
		value, shift = 0, 0
	}
	return numbers
}
