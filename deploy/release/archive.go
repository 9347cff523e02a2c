package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// file is one of an archive, or of a bill.
type file struct {
	path       string
	executable bool
}

// archive writes a tar.gz of files below the folder dir: in the order of their
// names, all of one time, of no user, with one of two modes.
func archive(path, dir string, files map[string]file, at time.Time) (err error) {
	out, err := os.Create(path) //nolint:gosec // a path of our own
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	// The header of gzip stays empty: no name, no time.
	compressed, err := gzip.NewWriterLevel(out, gzip.BestCompression)
	if err != nil {
		return err
	}
	list := tar.NewWriter(compressed)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := add(list, dir+"/"+name, files[name], at); err != nil {
			return err
		}
	}
	return errors.Join(list.Close(), compressed.Close())
}

func add(list *tar.Writer, name string, f file, at time.Time) error {
	content, err := os.ReadFile(f.path)
	if err != nil {
		return err
	}
	mode := int64(0o644)
	if f.executable {
		mode = 0o755
	}
	header := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(content)), ModTime: at, Format: tar.FormatPAX}
	if err := list.WriteHeader(header); err != nil {
		return err
	}
	_, err = list.Write(content)
	return err
}

// sums writes SHA256SUMS for all files of a folder, as sha256sum --check reads it.
func sums(dir string) error {
	entries, err := os.ReadDir(dir) // in the order of their names
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, entry := range entries {
		sum, err := sha256sum(filepath.Join(dir, entry.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%s  %s\n", sum, entry.Name())
	}
	return os.WriteFile(filepath.Join(dir, "SHA256SUMS"), []byte(lines.String()), 0o644) //nolint:gosec // a release is for everybody
}

func sha256sum(path string) (sum string, err error) {
	f, err := os.Open(path) //nolint:gosec // a path of our own
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	hash := sha256.New()
	if _, err := io.Copy(hash, f); err != nil {
		return "", err
	}
	return hex.EncodeToString(hash.Sum(nil)), nil
}
