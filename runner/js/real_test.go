package js_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"os"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/egress"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/js/packages"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

// published returns the adaptors of npm's registry, in the folder that tests share. The test is skipped without a registry.
func published(t testing.TB) *packages.Provider {
	t.Helper()
	if testing.Short() {
		t.Skip("needs packages of npm's registry, and seconds")
	}
	repo, err := adaptors.Open(adaptors.Config{Dir: runtest.Adaptors(t)})
	require.NoError(t, err)
	t.Cleanup(repo.Close)
	p, err := packages.Open(packages.Config{Repo: repo})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	if _, err = p.Package(t.Context(), "@openfn/language-common@3.3.4", nil); err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no registry: ", err)
	}
	require.NoError(t, err)
	return p
}

// The published packages, unmodified, in the embedded engine.
func TestRealAdaptors(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		if r.URL.Path == "/missing" {
			w.WriteHeader(http.StatusNotFound)
		}
		_, _ = w.Write([]byte(`{"asked":"` + r.Method + ` ` + r.URL.String() + `"}`))
	}))
	t.Cleanup(server.Close)
	const common, http = "@openfn/language-common@3.3.4", "@openfn/language-http@7.2.10"
	tests := []struct{ name, adaptor, body, reason, kind, want string }{
		{name: "parseCsv", adaptor: common, body: `parseCsv('a,b\n1,2'); fn(s => ({ rows: s.data }))`, reason: "success", want: `{"rows":[{"a":"1","b":"2"}]}`},
		{name: "validate", adaptor: common, body: `validate({ required: ['x'] }, 'data'); fn(s => ({ n: s.validationErrors[0].errors[0].message }))`, reason: "success", want: `{"n":"must have required property 'x'"}`},
		{name: "lodash", adaptor: common, body: `fn(() => ({ u: _.uniq([1, 1, 2]) }))`, reason: "success", want: `{"u":[1,2]}`},
		{name: "a path with a filter", adaptor: common, body: `fn(() => ({ data: [{ n: 1 }, { n: 2 }] })); each('$.data[?(@.n>1)]', fn(s => ({ found: s.data.n })))`, reason: "success", want: `{"found":2}`},
		{name: "dates", adaptor: common, body: `fn(() => ({ d: dateFns.format(new Date(0), 'yyyy-MM-dd') }))`, reason: "success", want: `{"d":"1970-01-01"}`},
		{name: "all imported", adaptor: common, body: `import * as all from '@openfn/language-common'; all.fn(() => ({ n: Object.keys(all).length > 30 }))`, reason: "success", want: `{"n":true}`},
		{name: "http of common", adaptor: common, body: `http.get('` + server.URL + `/a', { query: { b: 1 } }); fn(s => s.data)`, reason: "success", want: `{"asked":"GET /a?b=1"}`},
		{name: "http", adaptor: http, body: `get('` + server.URL + `/a', { query: { b: [1, 2] } }); fn(s => s.data)`, reason: "success", want: `{"asked":"GET /a?b=1&b=2"}`},
		{name: "http that fails", adaptor: http, body: `get('` + server.URL + `/missing')`, reason: "fail", kind: "AdaptorError"},
		{name: "an operation of its own that fails", adaptor: http, body: `get('/relative')`, reason: "fail", kind: "AdaptorError"},
		{name: "the job's own error", adaptor: http, body: `fn(() => { throw new Error('x'); })`, reason: "fail", kind: "JobError"},
		{name: "no functions from text", adaptor: http, body: `fn(() => new Function('return 1')())`, reason: "kill", kind: "SecurityError"},
		{name: "no fetch for jobs", adaptor: http, body: `fn(() => ({ t: [typeof fetch, typeof Headers, typeof require, typeof process] }))`, reason: "success", want: `{"t":["undefined","undefined","undefined","undefined"]}`},
	}
	w := runtest.New(t, js.New(js.Config{Packages: published(t), Egress: egress.New(egress.Config{Policy: egress.MustParse("any")})}))
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			body, _ := json.Marshal(tt.body)
			plan := `{"id":"` + runtest.NewID() + `","jobs":[{"id":"a","adaptor":"` + tt.adaptor + `","body":` + string(body) + `}]}`
			record := w.Run(t.Context(), runner.Limits{}, mockserver.Run{Plan: json.RawMessage(plan)})
			require.Equal(t, tt.reason, record.Reason, record.ErrorMessage)
			require.Equal(t, tt.kind, record.ErrorType, record.ErrorMessage)
			if tt.want != "" {
				require.JSONEq(t, tt.want, string(record.FinalState))
			}
		})
	}
}

func BenchmarkRealAdaptors(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = w.Write([]byte(`{}`))
	}))
	b.Cleanup(server.Close)
	engine := js.New(js.Config{Packages: published(b), Egress: egress.New(egress.Config{Policy: egress.MustParse("any")})})
	for _, tt := range []struct{ name, adaptor, body string }{
		{"built in", "common@3.3.4", "fn(s => s)"},
		{"merge", "common@3.3.4", "fn(s => ({ data: merge('$.data', {})(s) }))"},
		{"lodash", "common@3.3.4", "fn(s => ({ data: _.uniq([1]) }))"},
		{"parseCsv", "common@3.3.4", "parseCsv('a,b\\n1,2')"},
		{"cursor", "common@3.3.4", "cursor('today')"},
		{"validate", "common@3.3.4", "validate({}, 'data')"},
		{"fn of http", "http@7.2.10", "fn(s => s)"},
		{"get", "http@7.2.10", "get('" + server.URL + "')"},
	} {
		b.Run(tt.name, func(b *testing.B) {
			w := runtest.New(b, engine)
			body, _ := json.Marshal(tt.body)
			for b.Loop() {
				plan := `{"id":"` + runtest.NewID() + `","jobs":[{"id":"a","adaptor":"@openfn/language-` + tt.adaptor + `","body":` + string(body) + `}]}`
				record := w.Run(b.Context(), runner.Limits{}, mockserver.Run{Plan: json.RawMessage(plan)})
				require.Equal(b, "success", record.Reason, record.ErrorMessage)
			}
		})
	}
}
