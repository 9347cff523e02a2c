package compile_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner/compile"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew")

// Each testdata/*.js is a body; the .golden beside it is its module.
func TestGolden(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("testdata", "*.js"))
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(strings.TrimSuffix(filepath.Base(file), ".js"), func(t *testing.T) {
			body, err := os.ReadFile(file)
			require.NoError(t, err)
			module, err := compile.Compile(compile.Job{Body: string(body), Adaptors: []compile.Adaptor{
				{Name: "@openfn/language-http", Exports: []string{"fn", "each", "get", "post", "execute"}},
				{Name: "@openfn/language-collections", Exports: []string{"collections"}},
			}})
			require.NoError(t, err)
			requireModule(t, string(body), module)

			golden := strings.TrimSuffix(file, ".js") + ".golden"
			if *update {
				require.NoError(t, os.WriteFile(golden, []byte(module.Code), 0o644))
			}
			want, err := os.ReadFile(golden)
			require.NoError(t, err)
			require.Equal(t, string(want), module.Code, "go test ./runner/compile -update writes the golden files anew")
		})
	}
}
