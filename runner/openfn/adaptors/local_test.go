package adaptors

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestLocalAdaptors(t *testing.T) {
	w := fakes(t)
	r := open(t, Config{Monorepo: t.TempDir()})
	dir := filepath.Join(r.monorepo, "packages", "one")
	require.NoError(t, os.MkdirAll(dir, 0o700))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(`{"name":"@openfn/language-one","version":"0.1.0","exports":{".":{"import":"./dist/index.js","require":"./x.cjs"}}}`), 0o600))
	p, err := r.Resolve(t.Context(), "@openfn/language-one@local", nil)
	require.NoError(t, err)
	require.Equal(t, Package{
		Name: "@openfn/language-one", Version: "0.1.0", Dir: dir,
		Entry: filepath.Join(dir, "dist", "index.js"), Exports: []string{"default", "fn"},
	}, p)
	require.Empty(t, w.Paths())

	_, err = r.Resolve(t.Context(), "@openfn/language-two@local", nil)
	require.Equal(t, &InstallError{Specifier: "@openfn/language-two@local", Reason: "the monorepo has no packages/two"}, err)
	for _, name := range []string{"@openfn/language-..", "@openfn/language-."} {
		_, err = r.Resolve(t.Context(), name+"@local", nil)
		require.Equal(t, &InstallError{Specifier: name + "@local", Reason: "this is not the name of a folder in the monorepo"}, err)
	}
	_, err = open(t, Config{}).Resolve(t.Context(), "@openfn/language-one@local", nil)
	require.Equal(t, &InstallError{Specifier: "@openfn/language-one@local", Reason: "this worker has no folder with local adaptors: set --monorepo-dir or OPENFN_ADAPTORS_REPO"}, err)
}

func TestWhichModuleAPackageIs(t *testing.T) {
	tests := []struct{ name, json, want string }{
		{"nothing said", `{}`, "index.js"},
		{"main", `{"main":"lib/a.js"}`, "lib/a.js"},
		{"exports as text", `{"exports":"./a.js","main":"b.js"}`, "./a.js"},
		{"import", `{"exports":{".":{"require":"./a.cjs","import":"./a.js"}}}`, "./a.js"},
		{"import with types", `{"exports":{".":{"import":{"types":"./a.d.ts","default":"./a.js"}}}}`, "./a.js"},
		{"without the dot", `{"exports":{"import":"./a.js","require":"./a.cjs"}}`, "./a.js"},
		{"for Node", `{"exports":{".":{"node":{"import":"./n.js"},"default":"./a.js"}}}`, "./n.js"},
		{"default", `{"exports":{".":{"browser":"./b.js","default":"./a.js"}}}`, "./a.js"},
		{"another module only", `{"exports":{"./util":"./u.js"},"main":"a.js"}`, "a.js"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			text := `{"name":"x","version":"1.0.0",` + tt.json[1:]
			if tt.json == "{}" {
				text = `{"name":"x","version":"1.0.0"}`
			}
			require.NoError(t, os.WriteFile(filepath.Join(dir, "package.json"), []byte(text), 0o600))
			p, err := readPackage(dir)
			require.NoError(t, err)
			require.Equal(t, filepath.Join(dir, tt.want), p.Entry)
		})
	}
}
