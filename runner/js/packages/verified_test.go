package packages

import (
	"encoding/json"
	"flag"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/egress"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/npm"
	"github.com/phxworker/phxworker/runner/openfn"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var update = flag.Bool("update", false, "write verified.json anew, of the adaptors that came to the same as in Node")

// compared are uses of adaptors, whose servers are at $SERVER.
var compared = map[string][]string{
	"@openfn/language-common@3.3.4": {
		`parseCsv('a,b\n1,2\n3,4'); fn(s => ({ rows: s.data }))`,
		`fn(() => ({ data: [{ n: 1 }, { n: 2 }] })); each('$.data[?(@.n>1)]', fn(s => ({ found: s.data.n })))`,
		`fn(() => ({ d: dateFns.format(new Date(0), 'yyyy-MM-dd'), u: _.uniq([1, 1, 2]), e: util.encode('ä'), id: util.uuid().length }))`,
		`http.get('$SERVER/a', { query: { b: 1 } }); fn(s => ({ data: s.data }))`,
		`validate({ type: 'object', required: ['x'] }, 'data'); fn(s => ({ n: s.validationErrors[0].errors[0].message }))`,
		`cursor('2026-01-02', { format: c => c }); fn(s => ({ c: s.cursor }))`,
		`map('$.data', fn(s => s)); group($.nothing, 'x')`,
	},
	"@openfn/language-http@7.2.10": {
		`get('$SERVER/a', { query: { b: [1, 2] }, headers: { 'X-A': '1' } }); fn(s => ({ data: s.data, status: s.response.statusCode }))`,
		`post('$SERVER/p', { body: { a: 1 } }); put('$SERVER/p', { body: 'text' }); patch('$SERVER/p', { body: [1] }); del('$SERVER/p'); fn(s => ({ data: s.data }))`,
		`post('$SERVER/f', { body: { a: 'x', b: '2' }, contentType: 'application/x-www-form-urlencoded' }); fn(s => ({ data: s.data }))`,
		`request('GET', '$SERVER/missing'); fn(s => s)`,
		`get('$SERVER/missing', { errors: { 404: false } }); fn(s => ({ data: s.data }))`,
		`get('/relative')`,
	},
	"@openfn/language-fhir@5.0.15": {
		`get('Patient/1'); fn(s => ({ data: s.data }))`,
		`create('Patient', { name: 'a' }); fn(s => ({ data: s.data }))`,
		`get('missing')`,
	},
	"@openfn/language-collections@0.8.0": {
		`collections.get('c', 'k')`,
		`collections.set('c', 'k', { a: 1 })`,
		`collections.remove('c', 'k')`,
		`collections.get('missing', 'k')`,
	},
}

// recorder is a server that remembers what it was asked.
type recorder struct {
	*httptest.Server

	mu    sync.Mutex
	asked []string
}

func newRecorder(t *testing.T) *recorder {
	r := &recorder{}
	r.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		body, _ := io.ReadAll(q.Body)
		line := q.Method + " " + q.URL.String() + " " + string(body)
		for _, name := range []string{"Accept", "Authorization", "Content-Type", "X-A"} {
			line += " " + name + "=" + q.Header.Get(name)
		}
		r.mu.Lock()
		r.asked = append(r.asked, line)
		r.mu.Unlock()
		w.Header().Set("Content-Type", "application/json")
		if strings.Contains(q.URL.Path, "missing") {
			w.WriteHeader(http.StatusNotFound)
		}
		answer, _ := json.Marshal(map[string]string{"method": q.Method, "path": q.URL.String(), "body": string(body), "resourceType": "Patient"})
		_, _ = w.Write(answer)
	}))
	t.Cleanup(r.Close)
	return r
}

func (r *recorder) take() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	asked := r.asked
	r.asked = nil
	return asked
}

// provider returns one with the folder that tests share. The test is skipped without a registry.
func provider(t testing.TB) *Provider {
	t.Helper()
	if testing.Short() {
		t.Skip("needs packages of npm's registry, and seconds")
	}
	repo, err := adaptors.Open(adaptors.Config{Dir: runtest.Adaptors(t)})
	require.NoError(t, err)
	t.Cleanup(repo.Close)
	p, err := Open(Config{Repo: repo})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, p.Close()) })
	_, _, err = repo.Exact(t.Context(), "@openfn/language-common@latest", nil)
	if err != nil && os.Getenv("CI") == "" {
		t.Skip("there is no registry: ", err)
	}
	require.NoError(t, err)
	return p
}

// outcome is what is compared of a use.
type outcome struct {
	Reason, Kind, Message string
	State                 any
	Asked                 []string
}

// withoutTimes is a state without what is another each time.
func withoutTimes(state any) any {
	switch value := state.(type) {
	case map[string]any:
		for key := range value {
			if key == "duration" || key == "date" {
				value[key] = "<time>"
			}
			value[key] = withoutTimes(value[key])
		}
	case []any:
		for i := range value {
			value[i] = withoutTimes(value[i])
		}
	}
	return state
}

// The adaptors of verified.json, in Node and in the embedded engine: the same final states, and the same requests.
func TestVerifiedAdaptors(t *testing.T) {
	p := provider(t)
	runtest.Need(t, "node")
	if *update {
		writeVerified(t, p)
	}
	for adaptor := range compared {
		require.Contains(t, verified.Adaptors, adaptor, "run the test with -update")
	}
	require.Len(t, verified.Adaptors, len(compared), "an adaptor is called verified, and nothing compares it")
	node, err := openfn.New(openfn.Config{RepoDir: p.cfg.Repo.Dir(), Reuse: 1000})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, node.Close()) })
	embedded := js.New(js.Config{Packages: p, Egress: egress.New(egress.Config{Policy: egress.MustParse("any")})})
	server := newRecorder(t)
	w := runtest.New(t, nil)
	credential := json.RawMessage(`{"baseUrl":"` + server.URL + `","collections_endpoint":"` + server.URL + `","collections_token":"t","apiPath":"api","username":"u","password":"p"}`)
	use := func(engine runner.Engine, adaptor, body string) outcome {
		w.Engine = engine
		code, _ := json.Marshal(strings.ReplaceAll(body, "$SERVER", server.URL))
		plan := `{"id":"` + runtest.NewID() + `","jobs":[{"id":"a","adaptor":"` + adaptor + `","credential_id":"c","body":` + string(code) + `}]}`
		record := w.Run(t.Context(), runner.Limits{}, mockserver.Run{Plan: json.RawMessage(plan), Credentials: map[string]json.RawMessage{"c": credential}})
		var state any
		if len(record.FinalState) > 0 {
			require.NoError(t, json.Unmarshal(record.FinalState, &state))
		}
		return outcome{record.Reason, record.ErrorType, record.ErrorMessage, withoutTimes(state), server.take()}
	}
	for _, adaptor := range verified.Adaptors {
		t.Run(strings.TrimPrefix(adaptor, "@openfn/language-"), func(t *testing.T) {
			one, err := p.Package(t.Context(), adaptor, nil)
			require.NoError(t, err)
			require.Empty(t, one.Node)
			for _, body := range compared[adaptor] {
				want := use(node, adaptor, body)
				require.Equal(t, want, use(embedded, adaptor, body), body)
				t.Logf("%s %s %s %v", want.Reason, want.Message, want.State, want.Asked)
			}
		})
	}
}

// writeVerified has the list be of all that is compared.
func writeVerified(t *testing.T, p *Provider) {
	t.Helper()
	verified.Adaptors, verified.Packages = nil, nil
	for adaptor := range compared {
		verified.Adaptors = append(verified.Adaptors, adaptor)
		name, version := runner.SplitAdaptor(adaptor)
		all, err := p.open(t.Context(), name, version)
		require.NoError(t, err)
		files, ok := all.files.files.(*npm.Files)
		require.True(t, ok)
		for _, one := range files.Tree.Packages {
			verified.Packages = append(verified.Packages, one.Name+"@"+one.Version)
		}
		all.close()
	}
	slices.Sort(verified.Adaptors)
	slices.Sort(verified.Packages)
	verified.Packages = slices.Compact(verified.Packages)
	text, err := json.MarshalIndent(verified, "", "\t")
	require.NoError(t, err)
	require.NoError(t, os.WriteFile("verified.json", append(text, '\n'), 0o600))
}
