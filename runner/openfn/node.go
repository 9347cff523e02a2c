package openfn

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/phxworker/phxworker/runner"
	"github.com/phxworker/phxworker/runner/command"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

// node is the Node that is installed.
type node struct {
	Path    string `json:"program"`
	Version string `json:"version"`
	// Flags are those that it knows, of the ones that fence a job in.
	Flags []string `json:"flags"`
	// Maps is the text of its /proc/self/maps, on Linux.
	Maps       string   `json:"maps"`
	permission []string // those that a job runs under
}

// environment is all that a job could see of the worker's: what programs need to
// find each other, and certificates that are trusted besides.
func environment() []string { return command.Environment(extraCertificates) }

// extraCertificates is the variable that names a file of certificates.
const extraCertificates = "NODE_EXTRA_CA_CERTS"

// allowNet lets jobs use the network, where Node has a permission for it.
const allowNet = "--allow-net"

// firstGood is, by the first number of a version, the second of the first one with
// a permission model that holds. Before, symbolic links and threads that Node
// starts itself lead past it. All from 26 on are good.
var firstGood = map[int]int{20: 20, 22: 22, 24: 13, 25: 3}

// GoodNodes is the same for people.
const GoodNodes = "20.20, 22.22, 24.13 or later"

// good reports whether Node keeps jobs where they belong.
func (n node) good() bool {
	first, rest, _ := strings.Cut(n.Version, ".")
	second, _, _ := strings.Cut(rest, ".")
	major, _ := strconv.Atoi(first)
	minor, _ := strconv.Atoi(second)
	from, known := firstGood[major]
	return len(n.Flags) > 0 && (major > 25 || known && minor >= from)
}

// CheckNode returns why the node in PATH executes no jobs, in a sentence.
func CheckNode(ctx context.Context) error {
	_, err := findNode(ctx)
	return err
}

// findNode asks the node in PATH what it is.
func findNode(ctx context.Context) (node, error) {
	path, err := exec.LookPath("node")
	if err != nil {
		return node{}, errors.New("the OpenFn engine needs Node, and there is none in PATH: install Node " + GoodNodes)
	}
	const ask = `let maps = ''; try { maps = require('fs').readFileSync('/proc/self/maps', 'utf8') } catch {}
		console.log(JSON.stringify({version: process.versions.node, program: process.execPath, maps,
		flags: ['--permission', '--experimental-permission', '--allow-net', '--experimental-sqlite'].filter(f => process.allowedNodeEnvironmentFlags.has(f))}))`
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, "--no-warnings", "-e", ask) //nolint:gosec // the node in PATH
	cmd.Env = environment()
	cmd.WaitDelay = time.Second // a script in the place of Node has children, which hold the pipe
	out, err := cmd.Output()
	var n node
	if err == nil {
		err = json.Unmarshal(out, &n)
	}
	if target, _ := filepath.EvalSymlinks(path); n.Path == "" || n.Path == target {
		n.Path = path // a link may lead to another after an upgrade; what is no link is a script that starts Node
	}
	switch {
	case err != nil:
		return node{}, fmt.Errorf("%s does not say what version it is: %w", path, err)
	case !n.good():
		return node{}, fmt.Errorf("the OpenFn engine needs Node %s; %s is %s, which does not keep jobs from the files of the worker", GoodNodes, path, n.Version)
	}
	n.permission = []string{n.Flags[0]}
	if slices.Contains(n.Flags, allowNet) {
		n.permission = append(n.permission, allowNet)
	}
	if slices.Contains(n.Flags, "--experimental-sqlite") { // it opens files past all permissions
		n.permission = append(n.permission, "--no-experimental-sqlite")
	}
	return n, nil
}

// flags are those that jobs run under, besides the folders that they may use.
func (n node) flags(memoryMB float64) []string {
	flags := []string{
		"--experimental-vm-modules", // the runtime makes a module of each job
		"--no-warnings",
	}
	return append(append(flags, V8Flags(memoryMB)...), n.permission...)
}

// V8Flags are those of them that are V8's, for the [adaptors.Config] of packages that are to have their code caches at once.
// memoryMB is as in [Config].
func V8Flags(memoryMB float64) []string {
	return []string{
		"--max-old-space-size=" + strconv.Itoa(int(Config{MemoryMB: memoryMB}.withDefaults().MemoryMB)),
		// A process that lives for a run collects no garbage while it loads, which takes a twentieth of the run. V8 begins
		// with less, and would grow to that anyway where there is more to do.
		"--min-semi-space-size=8",
	}
}

// Warm makes the code caches of packages for engines of this Config, so that the
// first runs need not. The error says that those will be slower.
func Warm(ctx context.Context, cfg Config, repo *adaptors.Repo, packages ...adaptors.Package) error {
	n, err := findNode(ctx)
	if err != nil {
		return err
	}
	return repo.WarmCache(ctx, n.Path, n.flags(cfg.withDefaults().MemoryMB), packages...)
}

// nodeError says that there is no Node that executes jobs, or none with the fences that are required.
type nodeError struct{ error }

func engineError(err error) *runner.Failure {
	return &runner.Failure{Reason: runner.Exception, Type: "EngineError", Message: err.Error()}
}
