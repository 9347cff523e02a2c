package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

const page = "docs/compatibility.md"

// packages are what is looked at, and how names are taken out of their files.
var packages = []struct {
	name  string
	files map[string]func([]byte) []string // by path in the package
}{
	{"@openfn/lexicon", map[string]func([]byte) []string{"lightning.d.ts": contractNames}},
	{"@openfn/runtime", map[string]func([]byte) []string{
		"dist/index.d.ts": func(b []byte) []string { return optionNames("runtime", b) },
		"dist/index.js":   errorNames,
	}},
	{"@openfn/engine-multi", map[string]func([]byte) []string{"dist/index.js": func(b []byte) []string { return codeNames("engine", b) }}},
}

// errorNames returns the errors alone: a runtime's options are in its types.
func errorNames(source []byte) []string {
	return slices.DeleteFunc(codeNames("", source), func(name string) bool { return !strings.HasPrefix(name, "error ") })
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	names, news, err := look(ctx)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "upstream:", err)
		os.Exit(2) //nolint:gocritic // nothing is left to be done
	case len(os.Args) > 1: // -names, for testdata
		fmt.Println(strings.Join(names, "\n"))
		return
	case len(news) > 0:
		fmt.Println(strings.Join(news, "\n"))
		os.Exit(1)
	}
	fmt.Println("nothing that", page, "does not know")
}

// look returns all names, and a line for each thing that the table does not know.
func look(ctx context.Context) (names, news []string, err error) {
	text, err := os.ReadFile(page)
	if err != nil {
		return nil, nil, fmt.Errorf("start it in the folder of the module: %w", err)
	}
	known, err := readTable(text)
	if err != nil {
		return nil, nil, err
	}
	for _, p := range packages {
		files, err := download(ctx, p.name)
		if err != nil {
			return nil, nil, fmt.Errorf("%s: %w", p.name, err)
		}
		var own []string
		for path, namesIn := range p.files {
			if files[path] == nil {
				news = append(news, fmt.Sprintf("%s has no %s any more: see where its names are now", p.name, path))
				continue
			}
			own = append(own, namesIn(files[path])...)
		}
		var manifest struct{ Version string }
		if err := json.Unmarshal(files["package.json"], &manifest); err != nil {
			return nil, nil, fmt.Errorf("%s: package.json: %w", p.name, err)
		}
		if manifest.Version != known.versions[p.name] {
			news = append(news, fmt.Sprintf("%s %s is out; known is %s", p.name, manifest.Version, known.versions[p.name]))
		}
		slices.Sort(own)
		for _, name := range known.lacks(slices.Compact(own)) {
			news = append(news, fmt.Sprintf("%s %s has %s", p.name, manifest.Version, name))
		}
		names = append(names, own...)
	}
	slices.Sort(names)
	return slices.Compact(names), news, nil
}

// download returns the files of a package's latest version, by their paths in it.
func download(ctx context.Context, name string) (map[string][]byte, error) {
	dir, err := os.MkdirTemp("", "upstream-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	pack := exec.CommandContext(ctx, "npm", "pack", "--loglevel", "error", "--ignore-scripts", "--pack-destination", dir, name+"@latest") //nolint:gosec // a name of the list above
	var problem bytes.Buffer
	pack.Stderr = &problem
	if err := pack.Run(); err != nil {
		return nil, fmt.Errorf("nothing is known of it: npm pack: %w\n%s", err, bytes.TrimSpace(problem.Bytes()))
	}
	archives, err := filepath.Glob(filepath.Join(dir, "*.tgz"))
	if err != nil || len(archives) != 1 {
		return nil, errors.Join(err, fmt.Errorf("npm pack made %d archives", len(archives)))
	}
	return unpack(archives[0])
}

// maxFile is far more than any of the files has, in bytes.
const maxFile = 16 << 20

func unpack(archive string) (map[string][]byte, error) {
	file, err := os.Open(archive) //nolint:gosec // npm has just made it
	if err != nil {
		return nil, err
	}
	defer func() { _ = file.Close() }()
	unzipped, err := gzip.NewReader(file)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	for r := tar.NewReader(unzipped); ; {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, nil
		}
		if err != nil {
			return nil, err
		}
		_, path, _ := strings.Cut(header.Name, "/")
		if files[path], err = io.ReadAll(io.LimitReader(r, maxFile)); err != nil {
			return nil, err
		}
	}
}
