package npm

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"
	"unicode/utf8"
)

const (
	mostFiles    = 100_000 // of one package
	mostUnpacked = 1 << 29 // bytes of one package, and of all that is in memory of a tree
	maxPath      = 1024
	maxPart      = 255 // bytes of a name in a folder
)

// fetch has the archive of a package in the cache, verified.
func (c *Client) fetch(ctx context.Context, p Package) error {
	_, err := c.fetches.do(p.Integrity, func() (struct{}, error) {
		if s, ok := parseSum(p.Integrity); ok && c.cache.has(s) {
			return struct{}{}, nil
		}
		return struct{}{}, c.download(ctx, p)
	})
	return err
}

func (c *Client) download(ctx context.Context, p Package) error {
	s, ok := parseSum(p.Integrity)
	if !ok {
		return &Error{Kind: Untrusted, Package: p.Name + "@" + p.Version, Reason: errNoSum.Error(), Err: errNoSum}
	}
	if c.settings.offline {
		return &Error{Kind: Offline, Package: p.Name + "@" + p.Version, Reason: "npm is set to be offline, and it is not in the cache"}
	}
	c.log.Debug("fetching package", "package", p.Name, "version", p.Version)
	q := request{
		address: p.Address, accept: "*/*", registry: c.settings.registryOf(p.Name), packed: true,
		most: mostArchive, spent: &c.archives, mostAll: mostAllArchives, what: "archives",
	}
	err := c.get(ctx, q, func(_ http.Header, body io.Reader) error { return c.cache.storeArchive(body, s) })
	if errors.Is(err, errSum) {
		err = &Error{Kind: Untrusted, Reason: errSum.Error(), Err: errSum}
	}
	return about(p.Name+"@"+p.Version, err)
}

// archive returns the archive of a package, and fetches it again if it is damaged or gone from the cache. The error is an
// [*Error], a [*CacheError] where it is gone each time, or why ctx ended.
func (c *Client) archive(ctx context.Context, p Package) ([]byte, error) {
	s, _ := parseSum(p.Integrity)
	for range 2 {
		if raw, ok := c.cache.readArchive(s); ok {
			return raw, nil
		}
		if err := c.download(ctx, p); err != nil {
			return nil, err
		}
	}
	return nil, &CacheError{c.cache.dir, fmt.Errorf("it does not keep %s@%s", p.Name, p.Version)}
}

// unpack calls file for each file of an archive, in its order; the content is good for the time of
// the call. Paths are relative, in plain form, with slashes. Links and all that is no file
// are left out. A file may come twice: the latter counts. More than most bytes are an error.
func unpack(raw []byte, most int64, file func(name string, size int64, content io.Reader) error) error {
	zipped, err := gzip.NewReader(bytes.NewReader(raw))
	if err != nil {
		return badArchive(err)
	}
	bounded := &bounded{r: zipped, most: most}
	all := tar.NewReader(bounded)
	for entries := 0; ; entries++ {
		header, err := all.Next()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return badArchive(err)
		case entries > mostFiles:
			return &Error{Kind: Untrusted, Reason: fmt.Sprintf("its archive has over %d files", mostFiles)}
		case header.Typeflag != tar.TypeReg:
			continue
		}
		name, err := inside(header.Name)
		if err != nil {
			return err
		}
		if err := file(name, header.Size, all); err != nil {
			return badArchive(err)
		}
	}
}

func badArchive(err error) error {
	if own, ok := errors.AsType[*Error](err); ok {
		return own
	}
	return &Error{Kind: Untrusted, Reason: "its archive cannot be unpacked: " + oneLine(err), Err: err}
}

// bounded ends with an error where there is more.
type bounded struct {
	r          io.Reader
	most, read int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.read += int64(n); b.read > b.most {
		return 0, &Error{Kind: Untrusted, Reason: fmt.Sprintf("its archive unpacks to over %d MB", b.most>>20)}
	}
	return n, err
}

// inside is the path of a file below its package: the first folder, whatever it is called, is
// that of the package.
func inside(name string) (string, error) {
	bad := func() (string, error) {
		return "", &Error{Kind: Untrusted, Reason: "its archive has a file with a path that leads elsewhere, or is none: " + clip(name)}
	}
	if len(name) > maxPath || !utf8.ValidString(name) || strings.ContainsAny(name, "\x00\\") {
		return bad()
	}
	parts := strings.Split(strings.TrimPrefix(name, "/"), "/")
	for _, part := range parts {
		if part == ".." || len(part) > maxPart {
			return bad()
		}
	}
	clean := path.Clean(strings.Join(parts[1:], "/"))
	if len(parts) < 2 || clean == "." {
		return bad()
	}
	return strings.TrimPrefix(clean, "/"), nil
}
