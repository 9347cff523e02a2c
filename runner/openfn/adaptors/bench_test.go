package adaptors

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkImport starts a Node that imports the runtime and language-common: as
// npm installed them, bundled, and with code caches; and one that imports nothing.
// cpu-ms is the processor time of the whole process.
func BenchmarkImport(b *testing.B) {
	r := shared(b)
	runtime, _, err := r.Runtime(b.Context(), nil)
	require.NoError(b, err)
	adaptor, err := r.Resolve(b.Context(), common, nil)
	require.NoError(b, err)
	flags := []string{"--experimental-vm-modules", "--no-warnings"}
	caches := func() []string {
		var found []string
		for _, p := range []Package{runtime, adaptor} {
			paths, err := filepath.Glob(filepath.Join(p.Dir, "*.cache"))
			require.NoError(b, err)
			found = append(found, paths...)
		}
		return found
	}
	bundled := []string{runtime.Entry, adaptor.Entry}
	for _, bb := range []struct {
		name    string
		warm    bool
		entries []string
	}{
		{"nothing", false, nil},
		{"npm", false, []string{asPublished(b, runtime).Entry, asPublished(b, adaptor).Entry}},
		{"bundled", false, bundled},
		{"bundled and cached", true, bundled},
	} {
		b.Run(bb.name, func(b *testing.B) {
			for _, path := range caches() {
				require.NoError(b, os.Remove(path))
			}
			if bb.warm {
				require.NoError(b, open(b, Config{Dir: r.Dir()}).WarmCache(b.Context(), "node", flags, runtime, adaptor))
			}
			b.ReportAllocs()
			var cpu float64
			for b.Loop() {
				const code = "for (const path of process.argv.slice(1)) await import(path)"
				cmd := exec.CommandContext(b.Context(), "node", append(append(append([]string{}, flags...), "--input-type=module", "-e", code, "--"), bb.entries...)...)
				require.NoError(b, cmd.Run())
				cpu += float64((cmd.ProcessState.UserTime() + cmd.ProcessState.SystemTime()).Microseconds()) / 1000
			}
			b.ReportMetric(cpu/float64(b.N), "cpu-ms/op")
		})
	}
}
