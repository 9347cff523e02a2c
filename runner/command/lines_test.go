package command

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLines(t *testing.T) {
	const limit = 100 << 10
	long := strings.Repeat("x", 90<<10)
	tests := []struct {
		name, in string
		want     []string
		err      error
	}{
		{name: "none"},
		{name: "lines", in: "a\n\nb\r\n", want: []string{"a\n", "\n", "b\r\n"}},
		{name: "no end", in: "a\nb", want: []string{"a\n", "b"}},
		{name: "long message", in: `{` + long + "\nb", want: []string{"{" + long + "\n", "b"}},
		{name: "longest message", in: strings.Repeat("{", limit-1) + "\nb\n", want: []string{strings.Repeat("{", limit-1) + "\n", "b\n"}},
		{name: "too long a message", in: strings.Repeat("{", limit) + "\nb\n", err: errTooLong},
		{name: "long output", in: long + "\nb\n", want: []string{long[:maxOutput], "b\n"}},
		{name: "long output without end", in: long + long, want: []string{long[:maxOutput]}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			l := newLines(strings.NewReader(tt.in), func() int { return limit })
			var got []string
			var err error
			for err == nil {
				var line []byte
				if line, err = l.next(); err == nil {
					got = append(got, string(line))
				}
			}
			require.Equal(t, tt.want, got)
			if tt.err == nil {
				tt.err = io.EOF
			}
			require.ErrorIs(t, err, tt.err)
		})
	}
}

func TestALongLineIsNoReasonToHoldMemory(t *testing.T) {
	l := newLines(strings.NewReader(strings.Repeat("x", 8<<20)+"\n"+"{"+strings.Repeat("x", 8<<20)+"\n"+strings.Repeat("x", 100<<10)), func() int { return 16 << 20 })
	_, err := l.next()
	require.NoError(t, err)
	require.Less(t, cap(l.long), 2*maxOutput, "what is not kept is not held either")
	_, err = l.next()
	require.NoError(t, err)
	_, err = l.next()
	require.NoError(t, err)
	require.Less(t, cap(l.long), 2*maxOutput)
}

// What follows an end at once must not be taken for the next run's.
func TestAnEndKnowsThatMoreHasCome(t *testing.T) {
	for _, rest := range []string{"", "{\"type\":\"end\"}\n"} {
		r, w, err := os.Pipe()
		require.NoError(t, err)
		_, err = w.WriteString("{\"type\":\"end\"}\n" + rest)
		require.NoError(t, err)
		p := &process{stdout: r, messages: make(chan message), left: make(chan struct{}), stage: busy, dead: true}
		read := make(chan struct{})
		go func() {
			defer close(read)
			p.readMessages()
		}()
		m := <-p.messages
		require.Equal(t, end, m.kind)
		require.Equal(t, rest != "", m.more)
		require.NoError(t, w.Close())
		<-read
	}
}

// A pipe has no end while a grandchild holds it.
func TestAPipeIsReadToTheEndOfItsProcess(t *testing.T) {
	r, w, err := os.Pipe()
	require.NoError(t, err)
	defer func() { require.NoError(t, errors.Join(r.Close(), w.Close())) }()
	_, err = w.WriteString("last words")
	require.NoError(t, err)
	require.NoError(t, r.SetReadDeadline(past))
	got, err := io.ReadAll(&pipeReader{file: r})
	require.NoError(t, err)
	require.Equal(t, "last words", string(got))
}

// Guards against a run that dies of a character in its input: for some readers a
// line ends there.
func TestAMessageIsOneLineForEveryReader(t *testing.T) {
	input := json.RawMessage("{\"k\u2028\":\"a\u2029b<\u2028\"}")
	line, err := encode(map[string]any{"raw": input, "text": "\u2028"})
	require.NoError(t, err)
	require.Equal(t, `{"raw":{"k\u2028":"a\u2029b<\u2028"},"text":"\u2028"}`+"\n", string(line))
}
