package npm

import (
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
	"time"

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
	unpacked atomic.Int64    // in bytes
	ctx      context.Context //nolint:containedctx // [fs.FS] has none
	budget   *budget
	content  map[string]func() (*content, error) // by the path of a package
	folders  map[string][]string                 // packages and folders above them: what is in them of these
}

// content is what is in a package.
type content struct {
	files   map[string][]byte   // by path, below the package
	folders map[string][]string // the names in each, of files and folders
}

// Files resolves a package and fetches all that it needs, so that nothing is asked of the
// registry for what is read afterwards, unless the cache loses it.
func (c *Client) Files(ctx context.Context, name, text string) (*Files, error) {
	tree, b, err := c.fetchTree(ctx, name, text)
	if err != nil {
		return nil, err
	}
	return c.files(ctx, tree, b), nil
}

// Locked is [Client.Files] for packages of npm's registry of which all is known beforehand, as by a lockfile: no
// metadata is asked for. Of each, Path, Name, Version and Integrity have to be set.
func (c *Client) Locked(ctx context.Context, packages []Package) (*Files, error) {
	tree, b := &Tree{Packages: slices.Clone(packages)}, &budget{}
	all, fetching := errgroup.WithContext(ctx)
	for i := range tree.Packages {
		p := &tree.Packages[i]
		var ok bool
		if p.sum, ok = parseSum(p.Integrity); !ok {
			return nil, &Error{Kind: Untrusted, Package: p.Name + "@" + p.Version, Reason: errNoSum.Error(), Err: errNoSum}
		}
		m := &manifest{Name: p.Name, Version: p.Version}
		m.Dist.Tarball = defaultRegistry + p.Name + "/-/" + path.Base(p.Name) + "-" + p.Version + ".tgz"
		p.address = c.settings.archiveAt(m)
		all.Go(func() error { return c.fetch(fetching, *p, b) })
	}
	err := all.Wait()
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	tree.sort()
	return c.files(ctx, tree, b), err
}

func (c *Client) files(ctx context.Context, tree *Tree, b *budget) *Files {
	f := &Files{Tree: tree, client: c, ctx: ctx, budget: b, content: make(map[string]func() (*content, error)), folders: make(map[string][]string)}
	for _, p := range tree.Packages {
		f.content[p.Path] = sync.OnceValues(func() (*content, error) { return f.unpack(p) })
		addPath(f.folders, p.Path)
	}
	return f
}

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
	raw, err := f.client.archive(f.ctx, p, f.budget)
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
	return info{path.Base(name), len(data), names != nil}, err
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
	about := info{path.Base(name), len(data), names != nil}
	if names == nil {
		return &file{Reader: bytes.NewReader(data), info: about}, nil
	}
	entries, err := f.ReadDir(name)
	return &folder{file{bytes.NewReader(nil), about}, entries}, err
}

type info struct {
	name   string
	size   int
	folder bool
}

func (i info) Name() string       { return i.name }
func (i info) Size() int64        { return int64(i.size) }
func (i info) ModTime() time.Time { return time.Time{} }
func (i info) IsDir() bool        { return i.folder }
func (i info) Sys() any           { return nil }
func (i info) Mode() fs.FileMode {
	if i.folder {
		return fs.ModeDir | 0o555
	}
	return 0o444
}

type file struct {
	*bytes.Reader

	info info
}

func (f *file) Stat() (fs.FileInfo, error) { return f.info, nil }
func (f *file) Close() error               { return nil }

type folder struct {
	file

	entries []fs.DirEntry
}

func (f *folder) ReadDir(n int) ([]fs.DirEntry, error) {
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
