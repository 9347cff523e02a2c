package runner

import (
	"encoding/base64"
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/channel"
)

// mostWords is how long what the worker says of a server's mistake may be.
const mostWords = 2000

// FuzzParsePlan looks for plans that panic, here or in what is asked of a plan before an engine has
// it, and for limits that are none.
func FuzzParsePlan(f *testing.F) {
	for _, plan := range []string{
		`{"id":"r1","jobs":[{"id":"a"}]}`, `{"id":"r1","jobs":[{"id":"a"},{"id":"a"}]}`, `{"id":"r1","edges":[{}]}`, `{"id":"r1","edges":[{"target_job_id":"a","enabled":false}]}`,
		`{"id":"r1","jobs":[{"id":"a","credential":"c"},{"id":"b","credential":{"x":1}},{"id":"c","credential_id":"d","credential":null}]}`,
		`{"id":"r1","options":{"run_timeout_ms":1e300,"run_memory_limit_mb":-1,"payload_limit_mb":1e308,"log_payload_limit_mb":0,"deadline_ms":9e99,"output_dataclips":false,"job_log_level":"x"}}`,
		`{"id":"r1","options":{"run_timeout_ms":1e-300,"deadline_ms":-1}}`, `[]`, `null`, `{"id":7}`, `{"id":"r1","jobs":{}}`, `{"id":"r1","jobs":[null],"edges":[null]}`, "{\"id\":\"\xff\"}",
	} {
		f.Add([]byte(plan))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		plan, err := ParsePlan(data)
		if err != nil {
			require.Less(t, len(err.Error()), mostWords)
			return
		}
		require.NotEmpty(t, plan.ID)
		require.Equal(t, string(data), string(plan.Raw))
		ids := credentialIDs(plan.Jobs)
		require.LessOrEqual(t, len(ids), len(plan.Jobs))
		limits := Limits{}.WithDefaults().override(plan.Options)
		require.Positive(t, limits.MemoryMB)
		require.GreaterOrEqual(t, limits.RunTimeout, time.Duration(0))
		require.LessOrEqual(t, limits.RunTimeout, milliseconds(maxMilliseconds))
		require.GreaterOrEqual(t, limits.payloadBytes(), 0)
		require.GreaterOrEqual(t, limits.logPayloadBytes(), 0)
		_, err = plan.Options.Deadline().MarshalJSON()
		require.NoError(t, err)
		for i := range plan.Jobs {
			name, version := SplitAdaptor(plan.Jobs[i].Adaptor)
			require.LessOrEqual(t, len(name)+len(version), len(plan.Jobs[i].Adaptor))
		}
	})
}

// FuzzFetched looks for dataclips that are no JSON and go to an engine all the same, and for
// refusals that nobody would read to their end.
func FuzzFetched(f *testing.F) {
	for _, body := range []string{``, ` `, `null`, `{}`, `[123,125]`, `[123]`, `[256]`, `[-1,"a"]`, `[]`, `[[1]]`, `"x"`, "\"\xff\"", `{"errors":{"id":["is invalid"]}}`, "\x00"} {
		f.Add([]byte(body), true)
		f.Add([]byte(body), false)
	}
	f.Fuzz(func(t *testing.T, body []byte, binary bool) {
		clip, err := dataclipBody(channel.Reply{Response: body, Binary: binary})
		require.True(t, err == nil || clip == nil)
		require.True(t, clip == nil || json.Valid(clip))

		refused := &channel.RefusedError{Topic: "run:r1", Event: "fetch:dataclip", Response: body}
		var failure *Failure
		require.ErrorAs(t, fetchFailure(refused, "DataClipError", "no: "), &failure)
		require.Less(t, len(failure.Message), mostWords)
		isDuplicate("run:complete", refused)
		isAbout(refused, "final_state")
		isLeaseLost(refused)
	})
}

// FuzzToken looks for tokens whose life is no time that can be waited for.
func FuzzToken(f *testing.F) {
	claims := func(c string) string {
		return "eyJhbGciOiJub25lIn0." + base64URL(c) + "."
	}
	for _, c := range []string{`{}`, `{"nbf":1,"exp":2}`, `{"iat":1,"exp":1e300}`, `{"nbf":-1e300,"exp":1e300}`, `{"nbf":5,"exp":1}`, `{"exp":9223372036854775807,"iat":-9223372036854775808}`, `{"exp":"1"}`, `{"exp":{}}`, `[]`, `{"nbf":0,"exp":1e18}`} {
		f.Add(claims(c))
	}
	f.Add("")
	f.Add("x.y.z")
	f.Fuzz(func(t *testing.T, token string) {
		now := time.Now()
		p := newPatience(token, now, time.Minute, func() {})
		require.True(t, p.until.After(now), "%v", p.until)
		at, failure := p.deadline(time.Hour)
		require.NotNil(t, failure)
		require.WithinRange(t, at, now.Add(-time.Minute), now.Add(2*time.Hour))
		p.over()
	})
}

func base64URL(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }
