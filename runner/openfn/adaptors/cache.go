package adaptors

import (
	"bufio"
	"bytes"
	"context"
	_ "embed" // the script
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
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

// WarmCache makes the code caches of V8 that bundled packages lack, for
// processes of node that are started with execArgs. V8 takes no cache that was
// made under other flags of its own, such as --max-old-space-size; flags of Node
// make no difference to it. The packages are loaded for it, in a process with
// execArgs, the environment of a job and leave to read the repo.
//
// After the first success it costs nothing for the same arguments. An error says
// that packages load more slowly than they could, and nothing else.
func (r *Repo) WarmCache(ctx context.Context, node string, execArgs []string, packages ...Package) error {
	how := node + "\x00" + strings.Join(execArgs, "\x00") + "\x00"
	var dirs, loads []string
	for _, p := range packages {
		if p.Bundled && !r.warmed.has(how+p.Dir) && !slices.Contains(dirs, p.Dir) {
			dirs = append(dirs, p.Dir)
			loads = append(loads, filepath.Join(p.Dir, loadFile))
		}
	}
	if len(dirs) == 0 {
		return nil
	}
	flags := slices.Clone(execArgs)
	if slices.Contains(flags, "--permission") || slices.Contains(flags, "--experimental-permission") {
		flags = append(flags, "--allow-fs-read="+filepath.Join(r.dir, "*"))
	}
	answer, err := script{node: node, flags: flags, env: jobEnv(), code: cacheScript, args: loads}.run(ctx)
	if err == nil {
		err = storeCaches(answer, dirs)
	}
	if err != nil {
		return fmt.Errorf("code caches were not made: %w", err)
	}
	for _, dir := range dirs {
		r.warmed.add(how + dir)
	}
	return nil
}

// cacheName is a file name of load.cjs. The process that tells it has run code
// of packages, so it is not believed.
var cacheName = regexp.MustCompile(`^bundle-[0-9a-z.-]+\.cache$`)

var errCacheAnswer = errors.New("the process that makes them did not answer as expected")

// storeCaches writes the caches of an answer of cache.mjs.
func storeCaches(answer []byte, dirs []string) error {
	for in := bufio.NewReader(bytes.NewReader(answer)); ; {
		line, err := in.ReadBytes('\n')
		if err == io.EOF && len(line) == 0 {
			return nil
		}
		var header struct {
			Index int    `json:"index"`
			Name  string `json:"name"`
			Size  int    `json:"size"`
		}
		if json.Unmarshal(line, &header) != nil || header.Index < 0 || header.Index >= len(dirs) ||
			header.Size < 0 || header.Size > len(answer) || !cacheName.MatchString(header.Name) {
			return errCacheAnswer
		}
		data := make([]byte, header.Size)
		if _, err := io.ReadFull(in, data); err != nil {
			return errCacheAnswer
		}
		if err := replace(filepath.Join(dirs[header.Index], header.Name), data); err != nil {
			return err
		}
	}
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
