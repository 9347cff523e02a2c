package npm

import (
	"io/fs"
	"os"
	"testing"

	"github.com/stretchr/testify/require"
)

// BenchmarkFiles fetches language-http from npm's registry: with an empty cache, and with all in
// it. What npm takes is measured by hand.
func BenchmarkFiles(b *testing.B) {
	const name, version = "@openfn/language-http", "7.2.10"
	made := func(cache string) *Client {
		s := settings(b)
		s.moreAuthorities, _ = os.ReadFile(os.Getenv("NODE_EXTRA_CA_CERTS"))
		c, err := New(Config{Settings: s, Cache: cache})
		require.NoError(b, err)
		return c
	}
	full := b.TempDir()
	for _, bb := range []struct {
		name  string
		cache func() string
	}{
		{"cold", b.TempDir},
		{"warm", func() string { return full }},
	} {
		b.Run(bb.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				c := made(bb.cache())
				files, err := c.Files(b.Context(), name, version)
				require.NoError(b, err)
				require.NoError(b, fs.WalkDir(files, ".", func(_ string, _ fs.DirEntry, err error) error { return err }))
				c.Close()
			}
		})
	}
}
