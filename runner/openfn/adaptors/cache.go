package adaptors

import (
	"bytes"
	"context"
	"crypto/sha256"
	_ "embed" // the script
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
)

//go:embed scripts/cache.mjs
var cacheScript string

// warmed remembers for which ways to start Node a package has its code cache.
type warmed struct {
	mu   sync.Mutex
	done map[string]bool
}

func (w *warmed) has(key string) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.done[key]
}

func (w *warmed) add(key string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.done == nil {
		w.done = make(map[string]bool)
	}
	w.done[key] = true
}

// hasCache reports whether a package has just got its code cache, for processes that are started with execArgs.
func (r *Repo) hasCache(p Package, execArgs []string) bool {
	_, made := r.cached.Load(p.Dir)
	return made && !slices.ContainsFunc(r.flags, func(flag string) bool { return !slices.Contains(execArgs, flag) })
}

// WarmCache makes the code caches of V8 that bundled packages lack, for
// processes of node that are started with execArgs. V8 takes no cache that was
// made under other flags of its own, such as --max-old-space-size; flags of Node
// make no difference to it. Each package is loaded for it, in a process of its own with
// execArgs, the environment of a job and leave to read the repo: one could otherwise
// put code of its own into the cache of another.
//
// After the first success it costs nothing for the same arguments. An error says
// that packages load more slowly than they could, and nothing else.
func (r *Repo) WarmCache(ctx context.Context, node string, execArgs []string, packages ...Package) error {
	how := node + "\x00" + strings.Join(execArgs, "\x00") + "\x00"
	flags := slices.Clone(execArgs)
	if slices.Contains(flags, "--permission") || slices.Contains(flags, "--experimental-permission") {
		flags = append(flags, "--allow-fs-read="+filepath.Join(r.dir, "*"))
	}
	var all errgroup.Group
	all.SetLimit(atATime)
	for _, p := range packages {
		if !p.Bundled || r.warmed.has(how+p.Dir) || r.hasCache(p, execArgs) {
			continue
		}
		all.Go(func() error {
			err := r.warm(ctx, p, node, execArgs, flags)
			if err == nil {
				r.warmed.add(how + p.Dir)
			}
			return err
		})
	}
	if err := all.Wait(); err != nil {
		return fmt.Errorf("code caches were not made: %w", err)
	}
	return nil
}

// warm has a package have its code cache, which may have been made before of the same bundle for the same Node.
func (r *Repo) warm(ctx context.Context, p Package, node string, execArgs, flags []string) error {
	key, err := codeKey(p, node, execArgs)
	if err != nil {
		return err
	}
	c, err := r.client(ctx, specifier{p.Name, p.Version})
	if err == nil {
		defer c.Close()
		if answer, ok := c.Made(key); ok && !r.again {
			if name, _, _ := bytes.Cut(answer, []byte("\n")); !exists(filepath.Join(p.Dir, string(name))) {
				return storeCache(answer, p.Dir)
			}
		}
	}
	answer, failed := script{node: node, flags: flags, code: cacheScript, args: []string{p.Loader()}}.run(ctx)
	if failed != nil {
		return failed
	}
	if err == nil && len(answer) > 0 {
		c.Keep(key, answer)
	}
	return storeCache(answer, p.Dir)
}

// codeKey says all that a code cache depends on: the bundle, the program of Node and its flags.
func codeKey(p Package, node string, execArgs []string) (string, error) {
	code, err := os.ReadFile(filepath.Join(p.Dir, bundleFile))
	if err != nil {
		return "", err
	}
	if node, err = exec.LookPath(node); err != nil {
		return "", err
	}
	program, err := os.Stat(node) // what it is linked to
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("code %x %s %d %v %q", sha256.Sum256(code), node, program.Size(), program.ModTime().UnixNano(), execArgs), nil
}

// cacheName is a file name of load.cjs. The process that tells it has run code
// of the package, so it is not believed.
var cacheName = regexp.MustCompile(`^bundle-[0-9a-z.-]+\.cache$`)

var errCacheAnswer = errors.New("the process that makes them did not answer as expected")

// storeCache writes the cache of an answer of cache.mjs. There is none where the package
// has one already, or cannot be loaded.
func storeCache(answer []byte, dir string) error {
	if len(answer) == 0 {
		return nil
	}
	name, data, found := bytes.Cut(answer, []byte("\n"))
	if !found || !cacheName.Match(name) {
		return errCacheAnswer
	}
	return replace(filepath.Join(dir, string(name)), data)
}

// replace writes a file at once: a reader sees all of it or nothing.
func replace(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), ".cache-*")
	if err != nil {
		return err
	}
	defer os.Remove(tmp.Name()) // fails when it has become path
	_, err = tmp.Write(data)
	err = errors.Join(err, tmp.Chmod(0o644), tmp.Close())
	if err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}
