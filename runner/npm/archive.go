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
	"net/url"
	"path"
	"strconv"
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
func (c *Client) fetch(ctx context.Context, p Package, b *budget) error {
	_, err := c.fetches.do(ctx, p.Integrity, func() (struct{}, error) {
		if c.cache.has(p.sum) {
			return struct{}{}, nil
		}
		return struct{}{}, about(p.Name+"@"+p.Version, c.download(ctx, p, b))
	})
	return err
}

func (c *Client) download(ctx context.Context, p Package, b *budget) error {
	if c.settings.offline {
		return &Error{Kind: Offline, Reason: "npm is set to be offline, and it is not in the cache"}
	}
	home, err := url.Parse(c.settings.registryOf(p.Name))
	if err != nil {
		return misconfigured("the registry of %s is no address", p.Name)
	}
	if err := c.turns.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer c.turns.Release(1)
	c.log.Debug("fetching package", "package", p.Name, "version", p.Version)
	q := request{address: p.address, accept: "*/*", home: home, plainTransfer: true}
	err = c.get(ctx, q, func(header http.Header, body io.Reader) error {
		if announced, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil && announced > mostArchive {
			return tooLong(mostArchive)
		}
		return c.cache.storeArchive(&counted{r: body, left: mostArchive, budget: b}, p.sum)
	})
	if errors.Is(err, errSum) {
		return &Error{Kind: Untrusted, Reason: errSum.Error(), Err: errSum}
	}
	return err
}

// counted reads no more than it may.
type counted struct {
	r      io.Reader
	left   int64
	budget *budget
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.r.Read(p)
	if c.left -= int64(n); c.left < 0 {
		return 0, tooLong(mostArchive)
	}
	if over := spend(&c.budget.archives, int64(n), mostAllArchives, "archives"); over != nil {
		return 0, over
	}
	return n, err
}

// archive returns the archive of a package, and fetches it again if it is damaged or gone from the cache.
func (c *Client) archive(ctx context.Context, p Package, b *budget) ([]byte, error) {
	for range 2 {
		if raw, ok := c.cache.read(p.sum); ok {
			return raw, nil
		}
		if err := c.download(ctx, p, b); err != nil {
			return nil, about(p.Name+"@"+p.Version, err)
		}
	}
	return nil, fmt.Errorf("the cache of packages does not keep %s@%s", p.Name, p.Version)
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
