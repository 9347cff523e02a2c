package npm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Install writes a package and all that it needs below dir, each at its path in the
// tree, which it returns. The folder is the caller's: a failure leaves files in it.
//
// The error is an [*Error], one of the file system, or why ctx ended.
func (c *Client) Install(ctx context.Context, name, text, dir string) (*Tree, error) {
	tree, b, err := c.fetchTree(ctx, name, text)
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	var left atomic.Int64
	left.Store(mostOfAll)
	all, ctx := errgroup.WithContext(ctx)
	all.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range tree.Packages {
		all.Go(func() error { return c.write(ctx, root, p, b, &left) })
	}
	return tree, all.Wait()
}

// fetchTree resolves a package, and has all archives of the tree in the cache. It begins to fetch before
// the tree is known, since most of what may be in it will be.
func (c *Client) fetchTree(ctx context.Context, name, text string) (*Tree, *budget, error) {
	b := &budget{}
	all, fetching := errgroup.WithContext(ctx)
	tree, err := c.resolve(fetching, name, text, b, func(m *manifest) {
		if p, err := c.packageOf(m); err == nil {
			all.Go(func() error {
				_ = c.fetch(fetching, p, b) // whether it is needed is not known yet
				return nil
			})
		}
	})
	if err == nil {
		for _, p := range tree.Packages {
			all.Go(func() error { return c.fetch(fetching, p, b) })
		}
	}
	err = errors.Join(err, all.Wait())
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return tree, b, err
}

// unread are files that no program loads: declarations of types and source maps.
var unread = regexp.MustCompile(`\.(d\.[cm]?ts|[cm]?js\.flow|[cm]?js\.map|d\.[cm]?ts\.map)$`)

// write unpacks a package at its path.
func (c *Client) write(ctx context.Context, root *os.Root, p Package, b *budget, left *atomic.Int64) error {
	raw, err := c.archive(ctx, p, b)
	if err != nil {
		return err
	}
	w, err := newWriter(root, p.Path)
	if err != nil {
		return err
	}
	defer w.close()
	err = unpack(raw, mostUnpacked, func(name string, executable bool, size int64, content io.Reader) error {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		if left.Add(-size) < 0 {
			return &Error{Kind: Untrusted, Reason: fmt.Sprintf("all packages are over %d MB", mostOfAll>>20)}
		}
		if unread.MatchString(name) {
			return nil
		}
		return w.file(name, executable, content)
	})
	return about(p.Name+"@"+p.Version, err)
}

// A writer writes the files of a package. It keeps the folder of the last one open, since the
// next is mostly beside it: each step from the root is a call of the kernel, and there are
// thousands of files.
type writer struct {
	home   *os.Root        // of the package
	made   map[string]bool // folders below it
	folder *os.Root
	name   string // of that folder
	buffer []byte
}

func newWriter(root *os.Root, at string) (*writer, error) {
	if err := root.MkdirAll(filepath.FromSlash(at), 0o755); err != nil {
		return nil, err
	}
	home, err := root.OpenRoot(filepath.FromSlash(at))
	return &writer{home: home, made: make(map[string]bool), buffer: make([]byte, 64<<10)}, err
}

func (w *writer) file(name string, executable bool, content io.Reader) error {
	if err := w.enter(path.Dir(name)); err != nil {
		return err
	}
	mode := os.FileMode(0o644)
	if executable {
		mode = 0o755
	}
	base := path.Base(name)
	f, err := w.folder.OpenFile(base, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
	if errors.Is(err, os.ErrExist) { // it came before
		if err = w.folder.Remove(base); err == nil {
			f, err = w.folder.OpenFile(base, os.O_CREATE|os.O_EXCL|os.O_WRONLY, mode)
		}
	}
	if err != nil {
		return err
	}
	_, err = io.CopyBuffer(struct{ io.Writer }{f}, content, w.buffer)
	return errors.Join(err, f.Close())
}

func (w *writer) enter(dir string) error {
	if w.folder != nil && w.name == dir {
		return nil
	}
	if !w.made[dir] {
		if err := w.home.MkdirAll(filepath.FromSlash(dir), 0o755); err != nil {
			return err
		}
		w.made[dir] = true
	}
	folder, err := w.home.OpenRoot(filepath.FromSlash(dir))
	if err != nil {
		return err
	}
	w.leave()
	w.folder, w.name = folder, dir
	return nil
}

func (w *writer) leave() {
	if w.folder != nil {
		_ = w.folder.Close()
		w.folder = nil
	}
}

func (w *writer) close() {
	w.leave()
	_ = w.home.Close()
}
