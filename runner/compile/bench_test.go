package compile_test

import (
	"testing"

	"github.com/grafana/sobek/parser"

	"github.com/phxworker/phxworker/runner/compile"
)

// typical is a job of the usual size: some helpers, requests with lazy state, a chain.
const typical = `// Fetch patients and upload them
const mapping = { id: 'pid', name: 'full_name', born: 'birth_date' };

function rename(row) {
  return Object.fromEntries(Object.entries(mapping).map(([to, from]) => [to, row[from]]));
}

get($.configuration.baseUrl + '/patients', { query: { since: $.cursor, limit: 100 } })
  .then(state => {
    console.log('fetched', state.data.length);
    return { ...state, patients: state.data.map(rename) };
  })
  .catch((error, state) => {
    console.error(error.message);
    return { ...state, patients: [] };
  });

each(
  $.patients,
  post(state => ` + "`/upload/${state.data.id}`" + `, { body: $.data, headers: { 'content-type': 'application/json' } })
);

fn(state => {
  const { patients, ...rest } = state;
  return { ...rest, count: patients.length, summary: /^[a-z]+$/i.test(patients[0]?.name ?? '') };
});
`

func BenchmarkCompile(b *testing.B) {
	job := compile.Job{Body: typical, Adaptors: []compile.Adaptor{
		{Name: "@openfn/language-http", Exports: []string{"fn", "each", "get", "post", "execute"}},
	}}
	b.SetBytes(int64(len(typical)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := compile.Compile(job); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkParse is the baseline: what the parser alone takes for the same body.
func BenchmarkParse(b *testing.B) {
	b.SetBytes(int64(len(typical)))
	b.ReportAllocs()
	for b.Loop() {
		if _, err := parser.ParseFile(nil, "", typical, 0, parser.IsModule, parser.WithDisableSourceMaps); err != nil {
			b.Fatal(err)
		}
	}
}
