package adaptors

import (
	"context"
	_ "embed" // the script
	"errors"
	"fmt"
	"path/filepath"
	"slices"
)

//go:embed scripts/inspect.mjs
var inspectScript string

// unknownFlag is the exit code of a Node that does not know a flag.
const unknownFlag = 9

// exported is what a module was seen to export.
type exported struct {
	Exports []string `json:"exports"`
	Error   string   `json:"error"`   // why Node cannot load it
	Differs string   `json:"differs"` // why the bundle is no substitute
}

func (e exported) problem() string {
	if e.Error != "" {
		return "Node cannot load it: " + e.Error
	}
	return e.Differs
}

// inspect loads modules, in a process that may read the folder, and compares them
// with the bundle that the file load gives, if it is not empty. Of no modules, it tells what the bundle has.
func inspect(ctx context.Context, modules []Package, load, folder string) (seen []exported, err error) {
	arguments := map[string]any{"entries": append([]string{}, entries(modules)...), "load": load}
	for _, permission := range []string{"--permission", "--experimental-permission"} { // the latter before Node 22.13
		flags := []string{permission, "--no-warnings", "--allow-fs-read=" + filepath.Join(folder, "*")}
		err = script{flags: flags, code: inspectScript}.ask(ctx, arguments, &seen)
		if failed, ok := errors.AsType[*scriptError](err); !ok || failed.exit.ExitCode() != unknownFlag {
			break
		}
	}
	if err == nil && len(modules) > 0 && len(seen) != len(modules) {
		err = fmt.Errorf("of %d modules, %d were seen", len(modules), len(seen))
	}
	for i := range seen {
		slices.Sort(seen[i].Exports)
	}
	return seen, err
}

// withExports returns a package that is used as it is, with what it exports. It
// may read the folder for that.
func withExports(ctx context.Context, p Package, folder string) (Package, error) {
	seen, err := inspect(ctx, []Package{p}, "", folder)
	switch {
	case err == nil:
		p.Exports, p.Problem = seen[0].Exports, seen[0].Error
		return p, nil
	case ctx.Err() != nil:
		return Package{}, context.Cause(ctx)
	}
	failed, ran := errors.AsType[*scriptError](err) // it may be the package that ended Node
	return Package{}, &InstallError{
		Specifier: p.Name + "@" + p.Version, Reason: "Node cannot tell what it exports: " + err.Error(),
		Unable: !ran || failed.exit.ExitCode() < 0,
	}
}
