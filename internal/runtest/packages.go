package runtest

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/npm"
)

// Packages returns folders, in each of which is a package of npm's registry below node_modules, with all that it needs. A
// specifier is as in "@openfn/language-http@7.2.10". What was installed below dir before is taken from there, also by
// others at the same time. The test is skipped where tests are to be short and where there is no registry, but for CI.
func Packages(t testing.TB, dir string, specifiers ...string) []string {
	t.Helper()
	if testing.Short() {
		t.Skip("needs packages of npm's registry")
	}
	settings, err := npm.Load(dir, os.Environ(), nil)
	require.NoError(t, err)
	client, err := npm.New(npm.Config{Settings: settings, Cache: filepath.Join(dir, "npm")})
	require.NoError(t, err)
	defer client.Close()
	homes := make([]string, len(specifiers))
	for i, specifier := range specifiers {
		if homes[i], err = install(t, client, dir, specifier); err != nil {
			if os.Getenv("CI") != "" {
				t.Fatalf("%s: %v, and CI must have it", specifier, err)
			}
			t.Skipf("%s: %v", specifier, err)
		}
	}
	return homes
}

func install(t testing.TB, client *npm.Client, dir, specifier string) (home string, err error) {
	t.Helper()
	home = filepath.Join(dir, "packages", specifier)
	if _, err := os.Stat(home); err == nil {
		return home, nil
	}
	require.NoError(t, os.MkdirAll(filepath.Dir(home), 0o700))
	partial, err := os.MkdirTemp(filepath.Dir(home), ".partial-") //nolint:usetesting // beside what it is renamed to
	require.NoError(t, err)
	defer os.RemoveAll(partial)
	name, version := runner.SplitAdaptor(specifier)
	files, err := client.Files(t.Context(), name, version)
	if err != nil {
		return "", err
	}
	require.NoError(t, os.CopyFS(partial, files))
	err = os.Rename(partial, home)
	if errors.Is(err, fs.ErrExist) { // another was faster
		err = nil
	}
	return home, err
}
