package adaptors

import (
	"bytes"
	"context"
	_ "embed" // the script
	"encoding/json"
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

// An inspection loads modules, in a process that may read a folder, and compares them with their bundle.
type inspection struct {
	// Entries are the modules; of none, it tells what the bundle has.
	Entries []string `json:"entries"`
	// Load is the file that gives the bundle; empty for none.
	Load string `json:"load"`
	// Cache tells to make the code cache of the bundle as well, for the flags.
	Cache bool `json:"cache"`

	folder string
	flags  []string // of V8
}

// run returns what the modules export, and an answer for [storeCache].
func (i inspection) run(ctx context.Context) (seen []exported, cache []byte, err error) {
	var answer []byte
	for _, permission := range []string{"--permission", "--experimental-permission"} { // the latter before Node 22.13
		flags := append([]string{permission, "--no-warnings", "--allow-fs-read=" + filepath.Join(i.folder, "*")}, i.flags...)
		answer, err = script{flags: flags, code: inspectScript}.ask(ctx, i)
		if failed, ok := errors.AsType[*scriptError](err); !ok || failed.exit.ExitCode() != unknownFlag {
			break
		}
	}
	if err != nil {
		return nil, nil, err
	}
	told, cache, _ := bytes.Cut(answer, []byte("\n"))
	err = json.Unmarshal(told, &seen)
	if err == nil && len(i.Entries) > 0 && len(seen) != len(i.Entries) {
		err = fmt.Errorf("of %d modules, %d were seen", len(i.Entries), len(seen))
	}
	for i := range seen {
		slices.Sort(seen[i].Exports)
	}
	return seen, cache, err
}

// withExports returns a package that is used as it is, with what it exports. It
// may read the folder for that.
func withExports(ctx context.Context, p Package, folder string) (Package, error) {
	seen, _, err := inspection{Entries: []string{p.Entry}, folder: folder}.run(ctx)
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
