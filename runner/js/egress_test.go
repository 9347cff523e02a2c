package js

import (
	"context"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/egress"
	"github.com/phxworker/phxworker/runner/js/chunk"
)

// wire is an adaptor that needs no others, so that tests have one without npm.
const wire = `
const host = phxworker$host; // what the stand-ins for Node's builtins know as host
const ask = async URL => {
	const answer = JSON.parse(await host.exchange(JSON.stringify({ Method: 'GET', URL, Decompress: true })));
	if (answer.error) throw Object.assign(new Error(answer.error.message), answer.error);
	return answer;
};
const follow = async url => {
	for (;;) {
		const { statusCode, headers } = await ask(url);
		const to = headers[headers.indexOf('location') + 1];
		if (statusCode !== 302) return statusCode;
		url = to;
	}
};
exports.get = url => async state => ({ ...state, data: await follow(url) });
exports.flood = (url, n) => async state => ({ ...state, data: (await Promise.allSettled(Array.from({ length: n }, () => ask(url)))).map(r => r.reason?.code ?? 'ok') });
const open = async (URL, Stream) => {
	const call = async what => {
		const answer = JSON.parse(await host.exchange(JSON.stringify({ Stream, ...what })));
		if (answer.error) throw Object.assign(new Error(answer.error.message), answer.error);
		return answer;
	};
	await call({ Method: 'GET', URL });
	return (await call({ Op: 'rest' })).text.length;
};
exports.many = (url, n) => async state => ({ ...state, data: (await Promise.allSettled(Array.from({ length: n }, (_, i) => open(url, i + 1)))).map(r => r.reason?.code ?? r.value) });
exports.lost = () => async () => { throw Object.assign(new Error('lost'), { stack: '' }); };
exports.delete = () => state => ({ ...state, data: 'gone' });
exports['an odd name'] = 1;
`

// wired has that adaptor.
type wired struct{ store *chunk.Store }

func (w wired) Package(context.Context, string, func(string)) (*Package, error) {
	return &Package{Name: "@openfn/language-wire", Version: "1.0.0", Entry: "node_modules/@openfn/language-wire/index.js", Exports: []string{"get", "flood", "many", "lost", "delete", "an odd name"}, Chunks: w.store}, nil
}

func (w wired) Unfit(*Package, string) {}

// executeWired executes a job of the adaptor under a policy.
func executeWired(t *testing.T, guard *egress.Guard, body string) mockserver.RunRecord {
	t.Helper()
	tree := fstest.MapFS{
		"node_modules/@openfn/language-wire/package.json": {Data: []byte(`{"version":"1.0.0"}`)},
		"node_modules/@openfn/language-wire/index.js":     {Data: []byte(wire)},
	}
	cache, err := chunk.OpenCache(t.TempDir()+"/chunks", 1<<20, Compile)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, cache.Close()) })
	store, maker := cache.Store("test", nil), chunk.New(tree)
	made := make(map[string]bool)
	for ids := []string{"node_modules/@openfn/language-wire/index.js"}; len(ids) > 0; ids = ids[1:] {
		if !made[ids[0]] {
			made[ids[0]] = true
			one, err := store.Make(maker, ids[0])
			require.NoError(t, err)
			ids = append(ids, one.Requires...)
		}
	}
	w := runtest.New(t, New(Config{Packages: wired{store}, Egress: guard}))
	text, _ := json.Marshal(body)
	plan := `{"id":"` + runtest.NewID() + `","jobs":[{"id":"a","adaptor":"@openfn/language-wire@1.0.0","body":` + string(text) + `}]}`
	return w.Run(t.Context(), runner.Limits{}, mockserver.Run{Plan: json.RawMessage(plan)})
}

// Guards against a job that reaches this machine by itself, or because a server sends it there: the step fails as one whose
// adaptor has failed, the run's log says which rule it was, and the worker goes on.
func TestAJobThatMayNotConnect(t *testing.T) {
	var secret atomic.Int64
	hidden := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { secret.Add(1) }))
	t.Cleanup(hidden.Close)
	away := strings.Replace(hidden.URL, "127.0.0.1", "127.0.0.2", 1)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Location", map[string]string{"/loopback": away, "/metadata": "http://169.254.169.254/latest/meta-data/", "/again": "/again"}[r.URL.Path])
		if r.URL.Path == "/again" {
			w.Header().Set("Location", "http://"+r.Host+"/again")
		}
		if r.URL.Path != "/" {
			w.WriteHeader(http.StatusFound)
		}
	}))
	t.Cleanup(server.Close)
	tests := []struct{ name, list, url, reason, message, line string }{
		{"by default", "", server.URL, "fail", "to allow it: --egress public,private,loopback", "The job may not connect to 127.0.0.1"},
		{"lifted", "any", server.URL, "success", "", ""},
		{"a redirect to this machine", "127.0.0.1", server.URL + "/loopback", "fail", "to allow it: --egress 127.0.0.1,loopback", "The job may not connect to 127.0.0.2"},
		{"a redirect to what a cloud tells", "127.0.0.1", server.URL + "/metadata", "fail", "to allow it: --egress 127.0.0.1,metadata", "The job may not connect to 169.254.169.254"},
		{"redirects without end", "any", server.URL + "/again", "fail", "EDQUOT: a run may make 200 requests", "The job has reached a limit of this worker: a run may make 200 requests"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			guard := egress.New(egress.Config{Policy: egress.MustParse(tt.list), Limits: egress.Limits{Requests: 200}})
			record := executeWired(t, guard, `get('`+tt.url+`')`)
			require.Equal(t, tt.reason, record.Reason, record.ErrorMessage)
			if tt.line == "" {
				return
			}
			require.Equal(t, "AdaptorError", record.ErrorType)
			require.Contains(t, record.ErrorMessage, tt.message)
			lines := strings.Join(runtest.Lines(t, record, "R/T"), "\n")
			require.Equal(t, 1, strings.Count(lines, tt.line), lines)
		})
	}
	require.Zero(t, secret.Load())
}

// Guards against an error that says nowhere which line of the job led to it.
func TestAnErrorFromOutsideOfTheJobHasTheLineOfItsOperation(t *testing.T) {
	for name, call := range map[string]string{"JobError": "lost()", "AdaptorError": "get('http://127.0.0.1')"} {
		record := executeWired(t, egress.New(egress.Config{}), "flood('', 0);\n\n  "+call)
		require.Equal(t, name, record.ErrorType)
		require.Contains(t, runtest.Lines(t, record, "R/T"), `"Operation 2 failed at line 3, column 3"`)
	}
}

// Guards against a flood that fills the worker: each request is answered, those beyond the bound without the network.
func TestAJobThatFloodsTheNetwork(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	t.Cleanup(server.Close)
	for _, limits := range []egress.Limits{{Requests: 100}, {WaitingBytes: 1 << 19}} {
		asked.Store(0)
		record := executeWired(t, egress.New(egress.Config{Policy: egress.MustParse("any"), Limits: limits}), `flood('`+server.URL+`', 800)`)
		require.Equal(t, "success", record.Reason, record.ErrorMessage)
		var state struct{ Data []string }
		require.NoError(t, json.Unmarshal(record.FinalState, &state))
		var came, refused int64
		for _, one := range state.Data {
			switch one {
			case "ok":
				came++
			case "EDQUOT":
				refused++
			}
		}
		require.EqualValues(t, 800, came+refused, "each was answered")
		require.Positive(t, refused)
		require.Equal(t, asked.Load(), came)
	}
}

// Guards against responses that come faster than the job takes them, each with a connection of its own: where Node has its answers, so has the job.
func TestAJobThatAsksForMuchAtOnce(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(strings.Repeat("x", 10_000))) }))
	t.Cleanup(server.Close)
	record := executeWired(t, egress.New(egress.Config{Policy: egress.MustParse("any"), Limits: egress.Limits{AtOnce: 4, Open: 16}}), `many('`+server.URL+`', 200)`)
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	var state struct{ Data []any }
	require.NoError(t, json.Unmarshal(record.FinalState, &state))
	for i, one := range state.Data {
		require.EqualValues(t, 10_000, one, i)
	}
}

// Guards against a module that cannot be read: what an adaptor exports may have a name that no variable has.
func TestExportsWithNamesOfTheLanguage(t *testing.T) {
	for _, body := range []string{`import { delete as remove } from '@openfn/language-wire'; remove();`, `import * as wire from '@openfn/language-wire'; wire.delete();`} {
		record := executeWired(t, nil, body)
		require.Equal(t, "success", record.Reason, record.ErrorMessage)
		require.JSONEq(t, `{"data":"gone"}`, string(record.FinalState))
	}
}
