package frame

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPortable(t *testing.T) {
	zeros := strings.Repeat("0", 400)
	tests := []struct{ name, text, want string }{
		{"nothing to do", `{"a":[1,-2.5e3,"x",null],"b":"\u00e9\n"}`, ""},
		{"a pair", `"\ud83e\udd86 \uD83E\uDD86"`, ""},
		{"a high half", `"a\ud800b"`, `"a` + "\uFFFD" + `b"`},
		{"a low half", `"\uDC00"`, `"` + "\uFFFD" + `"`},
		{"two high halves", `"\ud800\ud800"`, `"` + "\uFFFD\uFFFD" + `"`},
		{"a high half before a pair", `"\ud83e\ud83e\udd86"`, `"` + "\uFFFD" + `\ud83e\udd86"`},
		{"a half at the end", `["\ud800"]`, `["` + "\uFFFD" + `"]`},
		{"half of an escape", `"\\ud800"`, ""},
		{"a key", `{"\udfff":1}`, `{"` + "\uFFFD" + `":1}`},
		{"a number too large", `{"n":1e400,"m":-1.5E+999}`, `{"n":"1e400","m":"-1.5E+999"}`},
		{"a number too small", `1e-400`, ""},
		{"in a string", `"1e400"`, ""},
		{"a large integer", "1" + zeros, ""},
		{"a large number with a point", "1" + zeros + ".5", `"1` + zeros + `.5"`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if tt.want == "" {
				tt.want = tt.text
			}
			require.Equal(t, tt.want, string(Portable([]byte(tt.text))))
		})
	}
}

func FuzzPortable(f *testing.F) {
	f.Add(`{"a":"\ud800\udc00\udc00","n":[1e400,1e4]}`)
	f.Fuzz(func(t *testing.T, text string) {
		out := Portable([]byte(text))
		if !json.Valid([]byte(text)) {
			return
		}
		require.True(t, json.Valid(out), "%s", out)
		require.Equal(t, string(out), string(Portable(out)))
		var before, after any
		if json.Unmarshal([]byte(text), &before) == nil { // no number was too large
			require.NoError(t, json.Unmarshal(out, &after))
			require.Equal(t, before, after, "encoding/json reads a half as U+FFFD too")
		}
	})
}

func BenchmarkPortable(b *testing.B) {
	text := []byte(`{"message":["a line of a log, with a number 12345 and a word or two"],"timestamp":"1700000000000000"}`)
	b.SetBytes(int64(len(text)))
	b.ReportAllocs()
	for b.Loop() {
		Portable(text)
	}
}
