package options

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-shellwords"

	"github.com/phxworker/phxworker/runner/egress"
)

// Engine is what the options say of the engine.
type Engine struct {
	Name                 string   // "auto", "js", "openfn" or "command"
	Command              []string // program and arguments, of a command
	RequireFences        bool     // nothing is executed without all of the kernel's
	Reuse                int      // how many runs a process executes
	Cgroups              bool     // the kernel keeps each process to the memory of its run
	CgroupOverheadMB     int      // and to this besides
	RepoDir, MonorepoDir string
	// StateProps are what is taken out of a step's state.
	StateProps    []string
	CompileMemory int64 // bytes
	// EmbeddedInput is the largest input that auto leaves to the embedded engine, in bytes; 0 is no limit.
	EmbeddedInput                      int64
	CollectionsURL, CollectionsVersion string
	// Egress is where jobs of the embedded engine may connect to, and EgressBytes what a run of it may exchange,
	// negative for no limit.
	Egress      egress.Policy
	EgressBytes int64
	// CheckTimeout is how long a command may take to answer when the worker
	// starts, and CheckRetries how often to ask again.
	CheckTimeout time.Duration
	CheckRetries int
}

// String names the engine for the log: without the arguments of a command, which
// may hold secrets.
func (e Engine) String() string {
	if e.Name == command {
		return filepath.Base(e.Command[0])
	}
	return e.Name
}

// DefaultRepoDir returns the folder of adaptors of a worker whose options name none.
// The error is that the user has no cache folder.
func DefaultRepoDir() (string, error) {
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	return filepath.Join(cache, "phxworker", "adaptors"), nil
}

// RunMemory returns how many MB the environment lets a run use, 0 if it does not
// say: adaptors are prepared for a limit by a command that has no other options. The
// error is an [*Error].
func RunMemory(getenv func(string) string) (float64, error) {
	const name = "WORKER_MAX_RUN_MEMORY_MB"
	values := &Values{byKey: make(map[string]value)}
	if text := getenv(name); text != "" {
		values.byKey[name] = value{text: text, from: name}
	}
	r := newReader(values)
	return r.orIfZero(name, "MB", zeroMB), r.err
}

// repoKey is the option that names the folder of adaptors.
const repoKey = "repo-dir"

// command is the name of an engine that is a program.
const command = "command"

// adaptors returns names of adaptors.
func (r *reader) adaptors(key string) []string {
	v, _ := r.take(key)
	names := r.list(key)
	for _, name := range names {
		if !strings.HasPrefix(name, "@openfn/") {
			r.failf("%s: %q is no adaptor: their names begin with @openfn/, as in @openfn/language-http", v.from, name)
		}
	}
	return names
}

func (r *reader) engine() Engine {
	e := Engine{
		RequireFences: r.toggle("require-fences"),
		Cgroups:       r.toggle("cgroups"), CgroupOverheadMB: r.whole("cgroup-memory-overhead-mb", 0),
		Reuse: r.whole("engine-reuse", 1), RepoDir: r.text(repoKey), MonorepoDir: r.folder("monorepo-dir"),
		StateProps:     r.list("state-props-to-remove"),
		CompileMemory:  int64(r.megabytes("compile-memory") * (1 << 20)),
		EmbeddedInput:  int64(r.orIfZero("embedded-input", "MB", 0) * (1 << 20)),
		CollectionsURL: r.webURL("collections-url"), CollectionsVersion: r.text("collections-version"),
		Egress: r.egress("egress"), EgressBytes: int64(r.limit("egress-limit") * (1 << 20)),
		CheckTimeout: r.milliseconds("engine-validation-timeout-ms"), CheckRetries: r.whole("engine-validation-retries", 0),
	}
	mock := r.toggle("mock")
	r.take("engine")
	chosen := r.chosenEngine()
	switch {
	case mock && chosen.text != "js":
		r.failf("%s %q and --mock exclude each other: --mock is --engine js", chosen.from, chosen.text)
	case slices.Contains([]string{"auto", "js", "openfn"}, chosen.text):
		e.Name = chosen.text
	case chosen.text == "node": // it would be started with nothing to execute, and be waited for
		r.failf("%s node is a command that says nothing: for OpenFn's runtime in Node, write openfn", chosen.from)
	default:
		e.Name = command
		e.Command, _ = shellwords.Parse(chosen.text)
		if len(e.Command) == 0 || !isProgram(e.Command[0]) {
			r.failf("%s %q is not known: write auto, js, openfn, or a command whose program is there", chosen.from, chosen.text)
		}
	}
	if e.RequireFences && e.Name == command {
		r.failf("%s and %s %q exclude each other: there are no fences around a command", r.byKey["require-fences"].from, chosen.from, chosen.text)
	}
	return e
}

// egress returns where jobs may connect to.
func (r *reader) egress(key string) egress.Policy {
	policy, err := egress.Parse(r.list(key))
	if err != nil {
		r.failf("%s: %v", r.byKey[key].from, err)
	}
	return policy
}

// chosenEngine returns the engine's option, or what takes its place.
func (v *Values) chosenEngine() value {
	chosen := v.byKey["engine"]
	if mock := v.byKey["mock"]; mock.text == "true" && chosen.rank == byDefault {
		return value{text: "js", rank: mock.rank, place: mock.place, from: mock.from}
	}
	return chosen
}

func isProgram(name string) bool {
	_, err := exec.LookPath(name)
	return err == nil
}
