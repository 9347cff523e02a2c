package npm

import (
	"archive/tar"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// Files are the files of a tree, without any on the disk, but for declarations of types and source maps, which no program
// loads. An archive is verified and unpacked into memory when the first of its files is wanted, and stays there as long as
// the Files do.
//
// All methods are safe for concurrent use. They use the client, which has to be open, and
// fail when the context of [Client.Files] is over.
type Files struct {
	Tree *Tree

	client   *Client
	unpacked atomic.Int64                        // in bytes
	ctx      context.Context                     //nolint:containedctx // [fs.FS] has none
	content  map[string]func() (*content, error) // by the path of a package
	folders  map[string][]string                 // packages and folders above them: what is in them of these
}

// content is what is in a package.
type content struct {
	files   map[string][]byte   // by path, below the package
	folders map[string][]string // the names in each, of files and folders
}

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
	f := &Files{Tree: tree, client: c, ctx: ctx, content: make(map[string]func() (*content, error)), folders: make(map[string][]string)}
	for _, p := range tree.Packages {
		all.Go(func() error { return c.fetch(fetching, p) })
		f.content[p.Path] = sync.OnceValues(func() (*content, error) { return f.unpack(p) })
		addPath(f.folders, p.Path)
	}
	err := all.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return f, err
}

// Made is [Client.Made] for what was made of exactly these packages.
func (f *Files) Made(key string) ([]byte, bool) { return f.client.Made(f.Tree.Sum() + " " + key) }

// Keep is [Client.Keep] for the same.
func (f *Files) Keep(key string, data []byte) { f.client.Keep(f.Tree.Sum()+" "+key, data) }

// addPath adds a path to the folders above it.
func addPath(folders map[string][]string, name string) {
	for ; name != "."; name = path.Dir(name) {
		dir := path.Dir(name)
		_, known := folders[dir]
		folders[dir] = append(folders[dir], path.Base(name))
		if known {
			return
		}
	}
}

// unread are declarations of types and source maps.
var unread = regexp.MustCompile(`\.(d\.[cm]?ts|[cm]?js\.flow|[cm]?js\.map|d\.[cm]?ts\.map)$`)

func (f *Files) unpack(p Package) (*content, error) {
	raw, err := f.client.archive(f.ctx, p)
	if err != nil {
		return nil, err
	}
	c := &content{files: make(map[string][]byte), folders: make(map[string][]string)}
	err = unpack(raw, mostUnpacked, func(name string, size int64, from io.Reader) error {
		if unread.MatchString(name) {
			return nil
		}
		if f.unpacked.Add(size) > mostUnpacked {
			return &Error{Kind: Untrusted, Reason: fmt.Sprintf("all packages are over %d MB", mostUnpacked>>20)}
		}
		data, err := io.ReadAll(from)
		if _, twice := c.files[name]; !twice {
			addPath(c.folders, name)
		}
		c.files[name] = data
		return err
	})
	return c, about(p.Name+"@"+p.Version, err)
}

// find splits a path into the package that it is in, the innermost, and the rest.
func (f *Files) find(name string) (load func() (*content, error), rest string) {
	for at := name; at != "."; at = path.Dir(at) {
		if load, ok := f.content[at]; ok {
			return load, strings.TrimPrefix(strings.TrimPrefix(name, at), "/")
		}
	}
	return nil, ""
}

var (
	_ fs.ReadFileFS = (*Files)(nil)
	_ fs.ReadDirFS  = (*Files)(nil)
	_ fs.StatFS     = (*Files)(nil)
)

// look returns a file, or the names in a folder.
func (f *Files) look(op, name string) (data []byte, names []string, err error) {
	if !fs.ValidPath(name) {
		return nil, nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrInvalid}
	}
	names, folder := f.folders[name]
	names = slices.Clone(names)
	if load, rest := f.find(name); load != nil {
		c, err := load()
		if err != nil {
			return nil, nil, &fs.PathError{Op: op, Path: name, Err: err}
		}
		if data, ok := c.files[rest]; ok {
			return data, nil, nil
		}
		within, known := c.folders[cmp.Or(rest, ".")]
		names, folder = append(names, within...), folder || known
	}
	if !folder {
		return nil, nil, &fs.PathError{Op: op, Path: name, Err: fs.ErrNotExist}
	}
	slices.Sort(names)
	return nil, slices.Compact(names), nil
}

// ReadFile implements [fs.ReadFileFS].
func (f *Files) ReadFile(name string) ([]byte, error) {
	data, names, err := f.look("read", name)
	if err == nil && names != nil {
		err = &fs.PathError{Op: "read", Path: name, Err: errors.New("is a directory")}
	}
	return slices.Clone(data), err
}

// Stat implements [fs.StatFS]. All files are as old as time itself.
func (f *Files) Stat(name string) (fs.FileInfo, error) {
	data, names, err := f.look("stat", name)
	return infoOf(name, data, names), err
}

func infoOf(name string, data []byte, names []string) fs.FileInfo {
	header := tar.Header{Name: path.Base(name), Size: int64(len(data)), Mode: 0o444, Typeflag: tar.TypeReg}
	if names != nil {
		header.Mode, header.Typeflag = 0o555, tar.TypeDir
	}
	return header.FileInfo()
}

// ReadDir implements [fs.ReadDirFS].
func (f *Files) ReadDir(name string) ([]fs.DirEntry, error) {
	_, names, err := f.look("readdir", name)
	if err == nil && names == nil {
		err = &fs.PathError{Op: "readdir", Path: name, Err: errors.New("not a directory")}
	}
	var entries []fs.DirEntry
	for _, one := range names {
		about, failed := f.Stat(path.Join(name, one))
		if failed != nil {
			return nil, failed
		}
		entries = append(entries, fs.FileInfoToDirEntry(about))
	}
	return entries, err
}

// Open implements [fs.FS].
func (f *Files) Open(name string) (fs.File, error) {
	data, names, err := f.look("open", name)
	if err != nil {
		return nil, err
	}
	opened := &file{Reader: bytes.NewReader(data), info: infoOf(name, data, names)}
	if names != nil {
		opened.entries, err = f.ReadDir(name)
	}
	return opened, err
}

// A file is open; a folder is one without content.
type file struct {
	*bytes.Reader

	info    fs.FileInfo
	entries []fs.DirEntry
}

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }

// ReadDir implements [fs.ReadDirFile].
func (f *file) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(f.entries) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(f.entries) {
		n = len(f.entries)
	}
	some := f.entries[:n]
	f.entries = f.entries[n:]
	return some, nil
}
