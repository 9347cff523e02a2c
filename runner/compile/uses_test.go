package compile_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/compile"
)

func TestUses(t *testing.T) {
	tests := []struct {
		name, body string
		want       []string // module, name, usage, text, line
	}{
		{name: "nothing", body: "const a = 1;", want: nil},
		{name: "a call without a text", body: "fn(s => s)", want: []string{" fn without  1"}},
		{name: "a text", body: "\neach('$.a', x)", want: []string{" each text $.a 2", " x mentioned  2"}},
		{name: "a template", body: "each(`$.a`); each(`$.${b}`)", want: []string{" each text $.a 1", " each mentioned  1", " b mentioned  1"}},
		{name: "a reference to the state", body: "each($.data.items, 1)", want: []string{" each without  1"}},
		{name: "a `$` of its own", body: "const $ = { a: 'x' }; each($.a, 1)", want: []string{" each mentioned  1"}},
		{name: "no arguments, and spread ones", body: "index(); each(...list)", want: []string{" index without  1", " each mentioned  1", " list mentioned  1"}},
		{name: "declared", body: "const fn = x => x; fn(1); (function map() { map(); })()", want: nil},
		{name: "declared further in", body: "map(1); { const map = 1; map; }", want: []string{" map without  1"}},
		{name: "members are no names", body: "fn(s => s.map.fn)", want: []string{" fn without  1"}},
		{name: "imported", body: "import { fn as f } from 'm'; f('x'); g(f)", want: []string{"m fn imported  1", "m fn text x 1", " g mentioned  1", "m fn mentioned  1"}},
		{name: "all imported", body: "import d, * as all from 'm'; all.fn(1)", want: []string{"m default imported  1", "m * imported  1", "m * mentioned  1"}},
		{name: "for what it does", body: "import 'm';", want: nil},
		{name: "exported again", body: "export * from 'm'; export { a as b } from 'n';", want: []string{"m * mentioned  1", "n a mentioned  1"}},
		{name: "exported by its name", body: "import { map } from 'm'; export { map as execute };", want: []string{"m map imported  1", "m map mentioned  1"}},
	}
	names := map[compile.Usage]string{compile.Imported: "imported", compile.Mentioned: "mentioned", compile.CalledWithText: "text", compile.CalledWithout: "without"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			batch, err := compile.NewCompiler(0).Start(t.Context(), nil, nil)
			require.NoError(t, err)
			defer batch.Close()
			uses, err := batch.Uses(t.Context(), tt.body)
			require.NoError(t, err)
			var got []string
			for _, use := range uses {
				got = append(got, fmt.Sprint(use.Module, " ", use.Name, " ", names[use.How], " ", use.Text, " ", use.Position.Line))
			}
			require.Equal(t, tt.want, got)
		})
	}
}
