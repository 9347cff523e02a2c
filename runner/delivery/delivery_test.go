package delivery

import (
	"encoding/json"
	"log/slog"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// Guards against a batch that is too large for a frame, though none of its lines is.
func TestABatchIsBoundedByItsSizeToo(t *testing.T) {
	box := New(Config{BatchLogs: BatchLogs{Limit: 10}}, slog.New(slog.DiscardHandler)).Open(claim.Run{}, nil, nil)
	box.TakeAll()
	for range 6 {
		box.put(&logLine{sending: sending{event: lineEvent}}, 900_000)
	}
	lines, complete := box.next()
	require.Len(t, lines, 4)
	require.True(t, complete)
	box.queue[0].state().size = 2 * batchBytes
	lines, _ = box.next()
	require.Len(t, lines, 1, "one at least")
}

// An engine may write what it likes; the server takes only so much.
func TestALineIsMadeOneThatTheServerTakes(t *testing.T) {
	at := time.UnixMicro(1_700_000_000_123_456)
	line := Line{Level: "fatal", Source: "123456789", Time: at}.withDefaults()
	require.Equal(t, Line{Level: "info", Source: "12345678", Time: at}, line)
	require.Equal(t, "1234567", Line{Source: "1234567é"}.withDefaults().Source, "no half of a letter")
	require.Equal(t, "12345678", Line{Source: "12345678"}.withDefaults().Source)
	require.False(t, Line{}.withDefaults().Time.IsZero())
}

// Guards against a secret that another one begins with: the shorter one would
// leave the rest of the longer one in sight.
func TestTheLongerOfTwoSecretsIsReplacedWhole(t *testing.T) {
	for range 20 { // the order of a map must not matter
		var box Outbox
		box.Hide(map[string]json.RawMessage{"a": json.RawMessage(`{"short":"hunter22","long":"hunter22-and-more"}`)})
		require.Equal(t, `"<***> <***>"`, string(mapStrings(json.RawMessage(`"<hunter22-and-more> <hunter22>"`), box.Scrub)))
	}
}

// Guards against a panic, which takes the worker down, over a token that does not
// tell when it is over.
func TestATokenNeedNotTellItsLifetime(t *testing.T) {
	signed := func(claims jwt.MapClaims) string {
		token, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("secret"))
		require.NoError(t, err)
		return token
	}
	tests := []struct {
		name, token string
		want        time.Duration
	}{
		{name: "both ends", token: signed(jwt.MapClaims{"nbf": 1000, "exp": 1300}), want: 5 * time.Minute},
		{name: "issued at", token: signed(jwt.MapClaims{"iat": 1000, "exp": 1300}), want: 5 * time.Minute},
		{name: "no beginning", token: signed(jwt.MapClaims{"exp": 1300})},
		{name: "no end", token: signed(jwt.MapClaims{"nbf": 1000})},
		{name: "no token of that kind", token: "opaque"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, lifetime(tt.token)) })
	}
}

// FuzzRefusal looks for refusals that cannot be read.
func FuzzRefusal(f *testing.F) {
	for _, response := range []string{``, ` `, `null`, `{}`, `[[1]]`, `"already in completed state"`, "\"\xff\"", `{"errors":{"id":["is invalid"]}}`, `{"errors":null}`} {
		f.Add([]byte(response))
	}
	f.Fuzz(func(t *testing.T, response []byte) {
		refused := &channel.RefusedError{Topic: "run:r1", Event: "run:complete", Response: response}
		require.LessOrEqual(t, len(unread("fetch:plan", refused)), maxWords+len("…"))
		require.False(t, isDuplicate("run:start", refused))
		isDuplicate("run:complete", refused)
		isAbout(refused, "final_state")
	})
}

// Guards against JSON that is another, or none, without its U+0000.
func TestWhatIsStorable(t *testing.T) {
	for in, want := range map[string]string{
		`{"a\u0000":["b\u0000c\n",1e400]}`: `{"a�":["b�c\n",1e400]}`,
		`"\\u0000 \\\u0000"`:               `"\\u0000 \\�"`,
		`"<&>"`:                            `"<&>"`,
		`"no end \u0000`:                   `"no end \u0000`,
		`{"x":1}`:                          `{"x":1}`,
	} {
		require.Equal(t, want, string(storable(json.RawMessage(in))), in)
	}
}

func TestTheSizeOfADataclipInWords(t *testing.T) {
	for bytes, want := range map[int]string{2: "0.00000191", 1 << 10: "0.000977", 1 << 20: "1.00", 10<<20 - 1: "10.0", 123_456_789: "118", 2000 << 20: "2000"} {
		require.Equal(t, want, sizeMB(bytes))
	}
}
