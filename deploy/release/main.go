// Command release makes what a release consists of, for each platform an archive
// with a static binary and a list of what is in it (SPDX), and one SHA256SUMS:
//
//	go run ./release -version v0.1.0 -out ../dist
//
// The same commit, version and Go give the same bytes, wherever and whenever they
// are made: nothing of the machine, its clock or its user gets in.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
)

func main() {
	version := flag.String("version", "", "the version to release, as in v0.1.0")
	out := flag.String("out", "../dist", "the folder to write to; it must be empty, or not there")
	root := flag.String("root", "..", "the folder of the module")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, *root, *version, *out)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// platforms are those that a release is made for.
var platforms = []platform{{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"}}

type platform struct{ os, arch string }

// semantic is a version as Go and its tags have them.
var semantic = regexp.MustCompile(`^v(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?$`)

func run(ctx context.Context, root, version, out string) error {
	if !semantic.MatchString(version) {
		return fmt.Errorf("%q is no version: say make release VERSION=v0.1.0", version)
	}
	source, err := readSource(ctx, root, version)
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "release-")
	if err != nil {
		return err
	}
	err = release(ctx, source, out, work)
	return errors.Join(err, os.RemoveAll(work))
}

func release(ctx context.Context, src source, out, work string) error {
	if err := os.MkdirAll(out, 0o755); err != nil { //nolint:gosec // a release is for everybody
		return err
	}
	if there, err := os.ReadDir(out); err != nil || len(there) > 0 {
		return errors.Join(err, fmt.Errorf("the folder %s is not empty: its files would get into SHA256SUMS", out))
	}
	for _, p := range platforms {
		name := fmt.Sprintf("phxworker-%s-%s-%s", src.version, p.os, p.arch)
		binary := filepath.Join(work, name)
		if err := src.build(ctx, p, binary); err != nil {
			return fmt.Errorf("build for %s/%s: %w", p.os, p.arch, err)
		}
		made, err := inspect(binary)
		if err != nil {
			return fmt.Errorf("read %s: %w", name, err)
		}
		files, err := src.contents(ctx, binary, made)
		if err != nil {
			return fmt.Errorf("contents of %s: %w", name, err)
		}
		if err := archive(filepath.Join(out, name+".tar.gz"), name, files, src.time); err != nil {
			return fmt.Errorf("archive %s: %w", name, err)
		}
		if err := writeBill(filepath.Join(out, name+".spdx.json"), name, src, made); err != nil {
			return fmt.Errorf("list of what is in %s: %w", name, err)
		}
		fmt.Println(name)
	}
	return sums(out)
}
