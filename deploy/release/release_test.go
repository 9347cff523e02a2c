package main

import (
	"archive/tar"
	"compress/gzip"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/spdx/tools-golang/json"
	"github.com/stretchr/testify/require"
)

func TestAnArchiveDependsOnWhatIsInItAlone(t *testing.T) {
	at := time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC)
	dir := t.TempDir()
	pack := func(name string, mode os.FileMode, touched time.Time) []byte {
		program, text := filepath.Join(dir, name+"-program"), filepath.Join(dir, name+"-text")
		require.NoError(t, os.WriteFile(program, []byte("program"), mode))
		require.NoError(t, os.WriteFile(text, []byte("text"), mode))
		require.NoError(t, os.Chtimes(program, touched, touched))
		path := filepath.Join(dir, name+".tar.gz")
		require.NoError(t, archive(path, "top", map[string]file{"program": {path: program, executable: true}, "a/text": {path: text}}, at))
		content, err := os.ReadFile(path)
		require.NoError(t, err)
		return content
	}
	require.Equal(t, pack("one", 0o600, at), pack("two", 0o744, at.Add(time.Hour)))

	f, err := os.Open(filepath.Join(dir, "one.tar.gz"))
	require.NoError(t, err)
	defer f.Close()
	plain, err := gzip.NewReader(f)
	require.NoError(t, err)
	list := tar.NewReader(plain)
	for _, want := range []tar.Header{{Name: "top/a/text", Mode: 0o644}, {Name: "top/program", Mode: 0o755}} {
		header, err := list.Next()
		require.NoError(t, err)
		require.Equal(t, want.Name, header.Name)
		require.Equal(t, want.Mode, header.Mode)
		require.True(t, at.Equal(header.ModTime))
		require.Zero(t, header.Uid)
		require.Empty(t, header.Uname)
	}
	_, err = list.Next()
	require.ErrorIs(t, err, io.EOF)
}

// The document is read by the library of those who wrote the format.
func TestTheBillNamesEveryModuleOfTheBinary(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "phxworker")
	src := source{root: "../..", version: "v1.2.3", time: time.Date(2026, 11, 20, 8, 30, 0, 0, time.UTC)}
	build := exec.CommandContext(t.Context(), "go", "build", "-o", binary, "./cmd/phxworker")
	build.Dir = src.root
	out, err := build.CombinedOutput()
	require.NoError(t, err, string(out))
	made, err := inspect(binary)
	require.NoError(t, err)
	require.Equal(t, runtime.Version(), made.goVersion)

	path := filepath.Join(t.TempDir(), "phxworker.spdx.json")
	require.NoError(t, writeBill(path, "phxworker", src, made))
	f, err := os.Open(path)
	require.NoError(t, err)
	defer f.Close()
	doc, err := json.Read(f)
	require.NoError(t, err)
	require.Equal(t, "SPDX-2.3", doc.SPDXVersion)
	require.Equal(t, "2026-11-20T08:30:00Z", doc.CreationInfo.Created)
	require.Len(t, doc.Packages, len(made.modules)+2)
	require.Len(t, doc.Relationships, len(doc.Packages))
	versions := make(map[string]string)
	for _, p := range doc.Packages {
		versions[p.PackageName] = p.PackageVersion
	}
	require.Equal(t, "v1.2.3", versions["github.com/phxworker/phxworker"])
	require.Equal(t, runtime.Version(), "go"+versions["stdlib"])
	require.NotEmpty(t, versions["modernc.org/libquickjs"])
	require.NotContains(t, versions, "github.com/stretchr/testify", "only tests need it")

	files, err := src.contents(t.Context(), binary, made)
	require.NoError(t, err)
	require.Contains(t, files, "licenses/github.com/gorilla/websocket/LICENSE")
	require.Contains(t, files, "licenses/go/LICENSE")
	for name, f := range files {
		_, err := os.Stat(f.path)
		require.NoError(t, err, name)
	}
}

func TestARefusedRelease(t *testing.T) {
	git := func(dir string, args ...string) {
		t.Helper()
		_, err := output(t.Context(), dir, "git", append([]string{"-c", "user.name=a", "-c", "user.email=a@example.org"}, args...)...)
		require.NoError(t, err)
	}
	tree := t.TempDir()
	git(tree, "init", "-q")
	require.NoError(t, os.WriteFile(filepath.Join(tree, "a"), nil, 0o600))
	git(tree, "add", "a")
	git(tree, "commit", "-q", "-m", "one")
	git(tree, "tag", "v1.0.0")
	git(tree, "commit", "-q", "--allow-empty", "-m", "two")
	git(tree, "tag", "-a", "-m", "the second", "v1.1.0")

	_, err := readSource(t.Context(), tree, "v1.1.0")
	require.NoError(t, err)
	_, err = readSource(t.Context(), tree, "v1.2.0")
	require.NoError(t, err, "a tag may come after the release was tried")
	_, err = readSource(t.Context(), tree, "v1.0.0")
	require.ErrorContains(t, err, "the tag v1.0.0 is on commit")
	require.NoError(t, os.WriteFile(filepath.Join(tree, "b"), nil, 0o600))
	_, err = readSource(t.Context(), tree, "v1.1.0")
	require.ErrorContains(t, err, "?? b")

	for _, version := range []string{"", "1.0.0", "v1", "v1.0.0; rm -rf ."} {
		require.ErrorContains(t, run(t.Context(), tree, version, t.TempDir()), "is no version")
	}
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "other"), nil, 0o600))
	require.ErrorContains(t, release(t.Context(), source{}, full, t.TempDir()), "is not empty")
}
