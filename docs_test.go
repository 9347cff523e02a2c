package phxworker

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A page that names a test, or links to a file, must not outlive it.
func TestThePagesNameWhatIsThere(t *testing.T) {
	tests := make(map[string]bool)
	var pages []string
	err := filepath.WalkDir(".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		switch {
		case strings.HasSuffix(path, "_test.go"):
			source, err := os.ReadFile(path)
			for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)`).FindAllSubmatch(source, -1) {
				tests[string(m[1])] = true
			}
			return err
		case strings.HasSuffix(path, ".md") && !strings.Contains(path, "testdata"):
			pages = append(pages, path)
		}
		return nil
	})
	require.NoError(t, err)
	require.NotEmpty(t, pages)

	name := regexp.MustCompile("`(Test[A-Z]\\w+)`")
	file := regexp.MustCompile("`((?:channel|claim|slots|runner|mockserver|cmd|docs|examples)/[\\w/.-]*\\w)`")
	link := regexp.MustCompile(`\]\(([^)#:]+)\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		require.NoError(t, err)
		for _, m := range name.FindAllSubmatch(text, -1) {
			require.True(t, tests[string(m[1])], "%s names the test %s", page, m[1])
		}
		for _, m := range file.FindAllSubmatch(text, -1) {
			_, err := os.Stat(string(m[1]))
			require.NoError(t, err, "%s names %s", page, m[1])
		}
		for _, m := range link.FindAllSubmatch(text, -1) {
			_, err := os.Stat(filepath.Join(filepath.Dir(page), string(m[1])))
			require.NoError(t, err, "%s links to %s", page, m[1])
		}
	}
}
