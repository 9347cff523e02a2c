//go:build linux && (amd64 || arm64)

package fence

import (
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
)

// What the fences add to the start of a program that does nothing.
func BenchmarkStart(b *testing.B) {
	program, err := exec.LookPath("true")
	require.NoError(b, err)
	for name, wrap := range map[string]bool{"bare": false, "fenced": true} {
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				cmd := exec.CommandContext(b.Context(), program)
				if wrap {
					require.NoError(b, Policy{Write: []string{b.TempDir()}, Execute: []string{program, "/lib", "/lib64", "/usr/lib"}, MaxFile: 1 << 30}.Wrap(cmd))
				}
				require.NoError(b, cmd.Run())
			}
		})
	}
}
