package openfn

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner"
)

// tokenReader remembers the token of the last run.
type tokenReader struct {
	runner.Engine

	token string
}

func (r *tokenReader) Prepare(ctx context.Context, run *runner.Run) (runner.Execution, error) {
	r.token = run.Token()
	return r.Engine.Prepare(ctx, run)
}

// A job that speaks of collections gets their adaptor, and the run's token to be
// let in with; any other job gets neither.
func TestCollections(t *testing.T) {
	long(t)
	var bearer string
	stored := make(map[string]string)
	api := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		bearer, _ = strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		w.Header().Set("Content-Type", "application/json")
		if r.Method == http.MethodPost {
			var body struct{ Items []struct{ Key, Value string } }
			_ = json.NewDecoder(r.Body).Decode(&body)
			for _, item := range body.Items {
				stored[item.Key] = item.Value
			}
			_, _ = w.Write([]byte(`{"upserted":1,"error":null}`))
			return
		}
		_, key, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/collections/"), "/")
		_ = json.NewEncoder(w).Encode(map[string]string{"key": key, "value": stored[key]})
	}))
	t.Cleanup(api.Close)
	b := newBench(t, Config{CollectionsURL: api.URL + "/collections", CollectionsVersion: "0.8.0"})
	seen := &tokenReader{Engine: b.Engine}
	b.Engine = seen
	run := runtest.OneJob("collections.set('people', 'ada', { age: 36 });\ncollections.get('people', 'ada');")
	record := b.Run(t.Context(), runner.Limits{}, run)
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.JSONEq(t, `{"age":36}`, stored["ada"])
	require.NotEmpty(t, bearer)
	require.Equal(t, seen.token, bearer)
	require.Contains(t, string(record.FinalState), `"age":36`)

	record = b.Job("fn(s => ({ ...s, data: Object.keys(s.configuration) }))")
	require.JSONEq(t, `{"data":[]}`, string(record.FinalState))
}
