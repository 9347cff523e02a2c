package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"

	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker/cmd/phxworker/options"
	"github.com/phxworker/phxworker/runner/js"
	"github.com/phxworker/phxworker/runner/js/packages"
	"github.com/phxworker/phxworker/runner/openfn"
	"github.com/phxworker/phxworker/runner/openfn/adaptors"
)

func (p *program) adaptorsCommand() *cli.Command {
	command := func(name, usage string, check func(context.Context, *cli.Command) error, action cli.ActionFunc, flags ...cli.Flag) *cli.Command {
		return &cli.Command{
			Name:               name,
			Usage:              usage,
			Hidden:             true, // adaptorsHelp tells of both; a list would be shown in its place
			Flags:              append(flags, &cli.StringFlag{Name: "repo-dir", Aliases: []string{"d"}}),
			CustomHelpTemplate: adaptorsHelp,
			HideHelpCommand:    true,
			OnUsageError:       explainUsage,
			ArgValidator:       check,
			Action:             action,
		}
	}
	return &cli.Command{
		Name:               "adaptors",
		Usage:              "install adaptors beforehand, or list them",
		CustomHelpTemplate: adaptorsHelp,
		HideHelpCommand:    true,
		OnUsageError:       explainUsage,
		ArgValidator:       noArguments,
		Commands: []*cli.Command{
			command("install", "install adaptors and what runs them", anyArguments, p.installAdaptors, &cli.BoolFlag{Name: "force"}),
			command("list", "list what is installed", noArguments, p.listAdaptors),
		},
		Action: func(context.Context, *cli.Command) error {
			return &usageError{"say what to do: phxworker adaptors install NAME@VERSION…, or phxworker adaptors list"}
		},
	}
}

// anyArguments takes all: without a validator of its own, a command has that of
// the one above it.
func anyArguments(context.Context, *cli.Command) error { return nil }

// repo returns the repo of the command line. The flags are those that Node will have for V8.
func (p *program) repo(cmd *cli.Command, flags ...string) (*adaptors.Repo, error) {
	set := cmd.String("repo-dir")
	if set == "" {
		set = p.getenv("WORKER_REPO_DIR")
	}
	dir, err := repoDir(set)
	if err != nil {
		return nil, err
	}
	repo, err := adaptors.Open(adaptors.Config{Dir: dir, Flags: flags, Again: cmd.Bool("force")})
	if err != nil {
		return nil, &usageError{err.Error()}
	}
	return repo, nil
}

// installAdaptors installs the packages of the arguments, and the runtime, so
// that runs which need no other adaptors need no network. It goes on after a
// failure, to tell all of them.
func (p *program) installAdaptors(ctx context.Context, cmd *cli.Command) error {
	memory, err := options.RunMemory(p.getenv)
	if err != nil {
		return err
	}
	repo, err := p.repo(cmd, openfn.V8Flags(memory)...)
	if err != nil {
		return err
	}
	defer repo.Close()
	for _, specifier := range cmd.Args().Slice() {
		if !strings.HasPrefix(specifier, "@openfn/") {
			return &usageError{fmt.Sprintf("%q is no adaptor: their names begin with @openfn/, as in @openfn/language-http@7.2.10", specifier)}
		}
	}
	provider, err := packages.Open(packages.Config{Repo: repo, Again: cmd.Bool("force")})
	if err != nil {
		return err
	}
	defer func() { _ = provider.Close() }() // what it prepared is complete
	var embedded []*js.Package
	var failed map[string]error
	var both sync.WaitGroup // a machine has more than one processor, and Node is a process of its own
	both.Go(func() { embedded, failed = prepareEmbedded(ctx, provider, cmd.Args().Slice()) })
	ready, broken, err := p.prepareForNode(ctx, repo, memory, cmd.Args().Slice())
	both.Wait()
	switch {
	case ctx.Err() != nil:
		return errStopped
	case err != nil:
		return err
	}
	p.tellAllReady(ready, embedded)
	failures := 0
	for _, specifier := range cmd.Args().Slice() {
		if err := cmp.Or(failed[specifier], broken[specifier]); err != nil {
			failures++
			fmt.Fprintln(p.stderr, err)
		}
	}
	return p.concludeInstall(repo, failures, cmd)
}

// prepareForNode installs the runtime and adaptors for the OpenFn engine, and tells which could not be had. The error is
// about the runtime.
func (p *program) prepareForNode(ctx context.Context, repo *adaptors.Repo, memory float64, specifiers []string) (ready []adaptors.Package, failed map[string]error, err error) {
	var mu sync.Mutex
	progress := func(line string) {
		mu.Lock()
		defer mu.Unlock()
		fmt.Fprintln(p.stdout, line)
	}
	if _, err := exec.LookPath("node"); err != nil {
		progress("nothing is installed for the OpenFn engine: there is no node in PATH")
		return nil, nil, nil //nolint:nilerr // it was told; the embedded engine has no need of it
	}
	packages, errs := make([]adaptors.Package, len(specifiers)), make([]error, len(specifiers))
	var all sync.WaitGroup
	for i, specifier := range specifiers {
		all.Go(func() {
			if packages[i], errs[i] = repo.Resolve(ctx, specifier, progress); errs[i] == nil {
				errs[i] = loadable(ctx, repo, packages[i], progress)
			}
		})
	}
	runtime, _, err := repo.Runtime(ctx, progress)
	if err == nil {
		err = loadable(ctx, repo, runtime, progress)
	}
	all.Wait()
	if err != nil {
		return nil, nil, err
	}
	ready, failed = []adaptors.Package{runtime}, make(map[string]error)
	for i, pkg := range packages {
		if errs[i] == nil {
			ready = append(ready, pkg)
		}
		failed[specifiers[i]] = errs[i]
	}
	if err := openfn.Warm(ctx, openfn.Config{MemoryMB: memory}, repo, ready...); err != nil {
		progress(noCache(err))
	}
	return ready, failed, nil
}

// prepareEmbedded prepares adaptors for the embedded engine, and tells which could not be had.
func prepareEmbedded(ctx context.Context, provider *packages.Provider, specifiers []string) (ready []*js.Package, failed map[string]error) {
	failed = make(map[string]error)
	for _, specifier := range specifiers {
		one, err := provider.Package(ctx, specifier, nil)
		if err == nil {
			ready = append(ready, one)
		}
		failed[specifier] = err
	}
	return ready, failed
}

// tellAllReady says which packages are ready, once each: those that are for both engines are with both. Without Node, none is
// installed for it.
func (p *program) tellAllReady(installed []adaptors.Package, embedded []*js.Package) {
	for _, pkg := range installed {
		var other *js.Package
		if i := slices.IndexFunc(embedded, func(one *js.Package) bool { return one.Name == pkg.Name && one.Version == pkg.Version }); i >= 0 {
			other = embedded[i]
			embedded = slices.Delete(embedded, i, i+1)
		}
		p.tellReady(pkg.Name+"@"+pkg.Version, true, other)
	}
	for _, one := range embedded {
		if one.Node == "" || len(installed) == 0 {
			p.tellReady(one.Name+"@"+one.Version, false, one)
		}
	}
}

// tellReady says of a package which engines it is ready for; embedded is nil for the runtime.
func (p *program) tellReady(name string, node bool, embedded *js.Package) {
	switch {
	case embedded == nil:
		fmt.Fprintf(p.stdout, "%s is ready\n", name)
	case node && embedded.Node == "":
		fmt.Fprintf(p.stdout, "%s is ready for both engines\n", name)
	case node:
		fmt.Fprintf(p.stdout, "%s is ready for Node alone: it %s\n", name, embedded.Node)
	case embedded.Node == "":
		fmt.Fprintf(p.stdout, "%s is ready for the embedded engine\n", name)
	default:
		fmt.Fprintf(p.stdout, "%s is for Node: it %s\n", name, embedded.Node)
	}
}

func (p *program) concludeInstall(repo *adaptors.Repo, failed int, cmd *cli.Command) error {
	fmt.Fprintln(p.stdout, "what is ready is in", repo.Dir())
	if failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d adaptors could not be installed; the lines above say why", failed, cmd.Args().Len())
}

// loadable returns why a package that is there is of no use. One that is damaged is
// installed again.
func loadable(ctx context.Context, repo *adaptors.Repo, pkg adaptors.Package, progress func(string)) error {
	if _, err := repo.Mend(ctx, pkg, progress); err != nil {
		return err
	}
	if pkg.Problem != "" {
		return fmt.Errorf("%s@%s is installed, but Node cannot load it: %s", pkg.Name, pkg.Version, pkg.Problem)
	}
	return nil
}

var errStopped = errors.New("stopped; what was told as installed is")

// noCache says why the code of packages is not compiled beforehand.
func noCache(err error) string {
	return "the code is not compiled beforehand, but by the first run: " + err.Error()
}

func (p *program) listAdaptors(_ context.Context, cmd *cli.Command) error {
	repo, err := p.repo(cmd)
	if err != nil {
		return err
	}
	list, err := repo.List()
	if err != nil {
		return err
	}
	provider, err := packages.Open(packages.Config{Repo: repo})
	if err != nil {
		return err
	}
	verdicts := provider.List()
	if err := provider.Close(); err != nil {
		return err
	}
	if len(list) == 0 && len(verdicts) == 0 {
		fmt.Fprintln(p.stdout, "nothing is installed in", repo.Dir())
		return nil
	}
	rows := make(map[string]*adaptorRow)
	for _, pkg := range list {
		bundled := "no"
		if pkg.Bundled {
			bundled = "yes"
		}
		rows[pkg.Name+"@"+pkg.Version] = &adaptorRow{pkg.Name, pkg.Version, bundled, "-"}
	}
	for _, one := range verdicts {
		key := one.Name + "@" + one.Version
		if rows[key] == nil {
			rows[key] = &adaptorRow{one.Name, one.Version, "-", ""}
		}
		rows[key].engine = engineFor(one)
	}
	table := tabwriter.NewWriter(p.stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, "package\tversion\tbundled\tengine")
	for _, key := range slices.Sorted(maps.Keys(rows)) {
		row := rows[key]
		fmt.Fprintln(table, strings.Join([]string{row.name, row.version, row.bundled, row.engine}, "\t"))
	}
	return table.Flush()
}

type adaptorRow struct{ name, version, bundled, engine string }

// engineFor says which engine executes an adaptor, and why.
func engineFor(one packages.Verdict) string {
	switch {
	case one.Node != "":
		return "node: " + one.Node
	case one.Verified:
		return "embedded, verified"
	}
	return "embedded"
}

const adaptorsHelp = `phxworker adaptors prepares the folder that both engines take adaptors from,
so that runs need not wait for them: in an image, for instance. They are fetched from the
registry that npm's settings name (.npmrc, npm_config_...); npm itself is not needed, and
without Node they are prepared for the embedded engine alone.

Usage:
  phxworker adaptors install [--force] [--repo-dir DIR] NAME@VERSION...
      install the adaptors, and the runtime in any case; a version may be a tag
      such as latest, and none is latest. What is there is left as it is, unless
      files of it are missing or cut short
  phxworker adaptors list [--repo-dir DIR]
      list what is installed. What is bundled has been put into one file together
      with all it needs, which Node loads faster; what is not works as well. The
      engine is the embedded one, verified where the adaptor was compared with Node,
      or Node, and why; a dash is for what is not looked into

Options:
  --force
      install again what is there
  --repo-dir DIR, -d DIR [WORKER_REPO_DIR]
      the folder; default phxworker/adaptors in the cache folder of the user
  WORKER_MAX_RUN_MEMORY_MB=MB
      as the worker will have it, if it is to have another limit than 500 MB:
      V8's code caches are good for one limit only

Exit codes: 0 when it is done, 1 when something could not be installed or read, 2
for options, variables or names that it cannot work with.
`
