package mockserver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/mockserver"
)

// FuzzHTTP posts bodies to the two routes that read them closely, in either mode.
// Whatever comes, the answer is one line of JSON with a status that fits it, and what was
// accepted can be read back.
func FuzzHTTP(f *testing.F) {
	for _, body := range []string{
		``, `null`, `[]`, `{}`, `"x"`, `{"jobs":[{"id":"a"}]}`, `{"id":"r","jobs":[],"dataclip":{},"credentials":{"c":1}}`,
		`{"id":"r","jobs":[{"id":"a"},{"id":"a"}],"edges":null,"options":{"run_timeout_ms":1e3,"output_dataclips":false}}`,
		`{"action":"drop","event":"claim","when":"after","skip":1,"count":-1,"probability":0.5}`,
		`{"event":"now","action":"restart","delay":"1ns","code":1006}`, `{"event":"now","action":"expire","run":"r"}`,
		`[{"action":"refuse","response":{"errors":{}}},{"action":"delay","delay":"15s"}]`, "\"\xff\"", "{\"action\":\"drop\",\"run\":\"\xff\"}",
		"\f[]", // regression: space to Go, but not to JSON
		`{"id":"r","jobs":[],"key":"customer 7"}`, `{"jobs":[],"key":null}`, `{"jobs":[],"key":7}`,
		`{"event":"run:renew","action":"crash"}`, `{"event":"run:release","action":"withhold","when":"before"}`,
	} {
		f.Add(true, body, true)
		f.Add(false, body, false)
	}
	f.Fuzz(func(t *testing.T, run bool, body string, extended bool) {
		mode := mockserver.Lightning
		if extended {
			mode = mockserver.Extended
		}
		s, err := mockserver.New(mockserver.Config{Mode: mode, OpaqueTokens: true})
		require.NoError(t, err)
		defer func() { require.NoError(t, s.Close()) }()
		path := "/faults"
		if run {
			path = "/run"
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, httptest.NewRequest(http.MethodPost, path, strings.NewReader(body)))
		answer := w.Body.String()
		require.Equal(t, 1, strings.Count(answer, "\n"), answer)
		var got struct {
			ID     string
			IDs    []int
			Error  string
			Errors map[string][]string
		}
		require.NoError(t, json.Unmarshal([]byte(answer), &got), answer)
		switch w.Code {
		case http.StatusCreated:
			require.True(t, json.Valid([]byte(body)))
			if run {
				_, known := s.Inspect(got.ID)
				require.True(t, known)
			} else {
				require.Len(t, s.FaultRules(), len(got.IDs))
			}
		case http.StatusBadRequest:
			require.NotEmpty(t, got.Error)
		case http.StatusUnprocessableEntity:
			require.Len(t, got.Errors, 1)
			require.Zero(t, s.Stats().Available)
			require.Empty(t, s.FaultRules())
		default:
			t.Fatalf("status %d: %s", w.Code, answer)
		}
		written, err := json.Marshal(s.FaultRules())
		require.NoError(t, err)
		require.True(t, json.Valid(written))
	})
}
