package npm

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Files are the files of a tree, without any on the disk, but for declarations of types and source maps, which no program
// loads. The archives are unpacked into memory when the first file is wanted, and stay there as long as the Files do.
//
// All methods are safe for concurrent use. What the cache has lost meanwhile is fetched again, until the context of
// [Client.Files] is over.
type Files struct {
	Tree *Tree

	client   *Client
	unpacked atomic.Int64 // in bytes
	all      func() (*zip.Reader, error)
}

var _ fs.ReadFileFS = (*Files)(nil)

// Files resolves a package and fetches all that it needs, so that nothing is asked of the
// registry for what is read afterwards, unless the cache loses it. It begins to fetch before
// the tree is known, since most of what may be in it will be.
func (c *Client) Files(ctx context.Context, name, text string) (*Files, error) {
	early, cancel := context.WithCancel(ctx)
	defer cancel()
	var all sync.WaitGroup
	tree, err := c.resolve(ctx, name, text, func(p Package) {
		all.Go(func() { _ = c.fetch(early, p) }) // whether it is needed is not known yet
	})
	if err != nil {
		cancel()
		all.Wait()
		return nil, err
	}
	files, err := c.files(ctx, tree)
	all.Wait()
	return files, err
}

// Locked is [Client.Files] for packages of npm's registry of which all is known beforehand, as by a lockfile: no
// metadata is asked for. Of each, Path, Name, Version and Integrity have to be set.
func (c *Client) Locked(ctx context.Context, packages []Package) (*Files, error) {
	tree := &Tree{Packages: slices.Clone(packages)}
	for i := range tree.Packages {
		p := &tree.Packages[i]
		p.Address = c.settings.archiveAt(p.Name, defaultRegistry+p.Name+"/-/"+path.Base(p.Name)+"-"+p.Version+".tgz")
	}
	tree.sort()
	return c.files(ctx, tree)
}

// files has all archives of a tree in the cache.
func (c *Client) files(ctx context.Context, tree *Tree) (*Files, error) {
	all, fetching := errgroup.WithContext(ctx)
	for _, p := range tree.Packages {
		all.Go(func() error { return c.fetch(fetching, p) })
	}
	err := all.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	f := &Files{Tree: tree, client: c}
	f.all = sync.OnceValues(func() (*zip.Reader, error) { return f.unpackAll(ctx) })
	return f, err
}

// Made is [Client.Made] for what was made of exactly these packages.
func (f *Files) Made(key string) ([]byte, bool) { return f.client.Made(f.Tree.Sum() + " " + key) }

// Keep is [Client.Keep] for the same.
func (f *Files) Keep(key string, data []byte) { f.client.Keep(f.Tree.Sum()+" "+key, data) }

// Open implements [fs.FS].
func (f *Files) Open(name string) (fs.File, error) {
	all, err := f.all()
	if err != nil {
		return nil, &fs.PathError{Op: "open", Path: name, Err: err}
	}
	return all.Open(name)
}

// ReadFile implements [fs.ReadFileFS].
func (f *Files) ReadFile(name string) ([]byte, error) {
	all, err := f.all()
	if err != nil {
		return nil, &fs.PathError{Op: "read", Path: name, Err: err}
	}
	return fs.ReadFile(all, name)
}

// unread are declarations of types and source maps.
var unread = regexp.MustCompile(`\.(?:d\.[cm]?ts|[cm]?js\.flow|[cm]?js\.map|d\.[cm]?ts\.map)$`)

// unpackAll makes one archive of all, whose files can be found.
func (f *Files) unpackAll(ctx context.Context) (*zip.Reader, error) {
	var whole bytes.Buffer
	var mu sync.Mutex // guards to
	to := zip.NewWriter(&whole)
	places := make(map[string]bool)
	for _, p := range f.Tree.Packages {
		places[p.Path] = true
	}
	var all errgroup.Group
	all.SetLimit(runtime.GOMAXPROCS(0))
	for _, p := range f.Tree.Packages {
		all.Go(func() error {
			files, err := f.unpack(ctx, p)
			mu.Lock()
			defer mu.Unlock()
			for name, data := range files {
				name = p.Path + "/" + name
				if inOther(places, name, p.Path) {
					continue
				}
				w, failed := to.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Store})
				if failed == nil {
					_, failed = w.Write(data)
				}
				err = errors.Join(err, failed)
			}
			return err
		})
	}
	if err := errors.Join(all.Wait(), to.Close()); err != nil {
		return nil, err
	}
	return zip.NewReader(bytes.NewReader(whole.Bytes()), int64(whole.Len()))
}

// inOther reports whether a file that a package brings lies where the tree has another package: that one counts, whichever is
// unpacked first.
func inOther(places map[string]bool, name, own string) bool {
	for at := name; len(at) > len(own); at = path.Dir(at) {
		if places[at] {
			return true
		}
	}
	return false
}

// unpack returns the files of a package, by their paths below it.
func (f *Files) unpack(ctx context.Context, p Package) (map[string][]byte, error) {
	raw, err := f.client.archive(ctx, p)
	if err != nil {
		return nil, err
	}
	files := make(map[string][]byte)
	err = unpack(raw, mostUnpacked, func(name string, size int64, from io.Reader) (err error) {
		if unread.MatchString(name) {
			return nil
		}
		if f.unpacked.Add(size) > mostUnpacked {
			return &Error{Kind: Untrusted, Reason: fmt.Sprintf("all packages are over %d MB", mostUnpacked>>20)}
		}
		files[name], err = io.ReadAll(from)
		return err
	})
	return files, about(p.Name+"@"+p.Version, err)
}
