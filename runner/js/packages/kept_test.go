package packages

import (
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// made are the files of what was made of packages, in npm's cache.
func made(t *testing.T, of string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(os.Getenv("npm_config_cache"), "phxworker", of, "*"))
	require.NoError(t, err)
	return files
}

// Guards against a verdict in every folder that tells of one bad minute, when an archive was damaged and the registry ill.
func TestNothingIsKeptForAPassingCause(t *testing.T) {
	registry := serve(t)
	t.Setenv("npm_config_fetch_retries", "0")
	_, err := openIn(t, t.TempDir()).Package(t.Context(), languageX, nil)
	require.NoError(t, err)
	for _, file := range made(t, "made") {
		require.NoError(t, os.Remove(file))
	}
	for _, file := range made(t, "archives") {
		require.NoError(t, os.WriteFile(file, nil, 0o600))
	}
	registry.Fail(503)
	p := openIn(t, t.TempDir())
	_, err = p.Package(t.Context(), languageX, nil)
	require.ErrorContains(t, err, "is ill")
	registry.Fail(0)
	for _, p := range []*Provider{p, openIn(t, t.TempDir())} {
		one, err := p.Package(t.Context(), languageX, nil)
		require.NoError(t, err)
		require.Empty(t, one.Node)
	}
}

// What is recalled takes as much of the memory of adaptors as what was made.
func TestWhatIsRecalledCounts(t *testing.T) {
	serve(t)
	var bytes []int64
	for range 2 {
		p := openIn(t, t.TempDir())
		one, err := p.Package(t.Context(), languageX, nil)
		require.NoError(t, err)
		require.Positive(t, one.Chunks.Bytes())
		bytes = append(bytes, p.known.bytes)
	}
	require.Equal(t, bytes[0], bytes[1])
}

// Guards against a cache that ends runs: what is damaged in it, or of another program, is made anew.
func TestADamagedCacheIsMadeAnew(t *testing.T) {
	serve(t)
	for _, damage := range []func(file string) error{
		func(file string) error { return os.Truncate(file, 0) },
		func(file string) error { return os.Truncate(file, 40) },
		func(file string) error {
			return os.WriteFile(file, []byte("something else of some length, which is no bytecode"), 0o600)
		},
		os.Remove,
		func(file string) error { return os.Chmod(filepath.Dir(file), 0o777) },
	} {
		_, err := openIn(t, t.TempDir()).Package(t.Context(), languageX, nil)
		require.NoError(t, err)
		files := made(t, "made")
		require.NotEmpty(t, files)
		for _, file := range files {
			require.NoError(t, damage(file))
		}
		record := execute(t, openIn(t, t.TempDir()), languageX, "fn(() => ({ data: 1 }))")
		require.Equal(t, "success", record.Reason, record.ErrorMessage)
	}
}

// Guards against an adaptor that a run has shown to be unfit, in this worker or in another one with the same folder, and that is fit
// again since it was just being prepared anew.
func TestWhatIsUnfitStaysSoThoughItIsPreparedMeanwhile(t *testing.T) {
	for _, where := range []string{"in this worker", "in another"} {
		t.Run(where, func(t *testing.T) {
			registry := serve(t)
			registry.Publish(t, "@openfn/language-y", "1.0.0", "", "package/index.js", common)
			dir := t.TempDir()
			p := openIn(t, dir)
			p.known.most = 1
			one, err := p.Package(t.Context(), languageX, nil)
			require.NoError(t, err)
			shown := p
			if where == "in another" {
				shown = openIn(t, dir)
			}
			_, err = p.Package(t.Context(), "@openfn/language-y@1.0.0", nil) // has the other forgotten
			require.NoError(t, err)
			chunks, err := filepath.Glob(filepath.Join(dir, ".embedded", "chunks", "*"))
			require.NoError(t, err)
			for _, file := range chunks {
				require.NoError(t, os.Remove(file))
			}
			t.Setenv("npm_config_cache", t.TempDir())
			var once sync.Once
			registry.Instead(func(http.ResponseWriter, *http.Request) bool {
				once.Do(func() { shown.Unfit(one, "calls fs.readFileSync of Node") })
				return false
			})
			one, err = p.Package(t.Context(), languageX, nil)
			require.NoError(t, err)
			require.Equal(t, "calls fs.readFileSync of Node", one.Node)
			require.Contains(t, p.List(), Verdict{Name: "@openfn/language-x", Version: "1.0.0", Node: "calls fs.readFileSync of Node"})

			again, err := Open(Config{Repo: p.cfg.Repo, Again: true})
			require.NoError(t, err)
			defer again.Close()
			one, err = again.Package(t.Context(), languageX, nil)
			require.NoError(t, err)
			require.Empty(t, one.Node, "it is looked into anew")
			require.Contains(t, openIn(t, dir).List(), Verdict{Name: "@openfn/language-x", Version: "1.0.0"})
		})
	}
}

// Guards against an adaptor that is for Node for ever, since a machine was slow when it was looked into.
func TestWhatTookLongIsLookedIntoAgain(t *testing.T) {
	registry := serve(t)
	dir := t.TempDir()
	_, err := openIn(t, dir).Package(t.Context(), languageX, nil)
	require.NoError(t, err)
	p := openIn(t, dir)
	found, ok := p.readRecord("@openfn/language-x", "1.0.0")
	require.True(t, ok)
	found.Node, found.LoadMS = "takes 500 ms to load", 500
	of := func(judged time.Duration) string {
		t.Helper()
		found.Judged = time.Now().Add(-judged)
		p.write(found.Name, found.Version, recordSuffix, found)
		one, err := openIn(t, dir).Package(t.Context(), languageX, nil)
		require.NoError(t, err)
		return one.Node
	}
	require.Equal(t, found.Node, of(slowFor/2))
	require.Empty(t, of(2*slowFor))
	registry.Fail(http.StatusServiceUnavailable)
	t.Setenv("npm_config_fetch_retries", "0")
	t.Setenv("npm_config_cache", t.TempDir())
	require.Equal(t, found.Node, of(2*slowFor), "what it is made of cannot be had")
}
