package adaptors

import (
	"context"
	_ "embed" // the scripts
	"path/filepath"
)

var (
	//go:embed scripts/bundle.mjs
	bundleScript string

	//go:embed scripts/load.cjs
	loadScript string
)

const (
	bundlerName    = "esbuild"
	bundlerVersion = "0.28.2"
	bundleFile     = "bundle.js"
	loadFile       = "load.cjs"
)

// makeBundle makes the bundle of modules, of which the first is the package, and
// a package in dir that consists of it for each.
func (r *Repo) makeBundle(ctx context.Context, s specifier, modules []Package, dir string) (known prepared, err error) {
	home := npmFolder(dir, s.name)
	load := filepath.Join(home, loadFile)
	if err := mkdir(home); err != nil {
		return known, err
	}
	if err := write(load, []byte(loadScript)); err != nil {
		return known, err
	}
	known.Reason, err = r.esbuild(ctx, s, modules, home)
	if err != nil {
		return known, err
	}
	compared := load
	if known.Reason != "" {
		compared = ""
	}
	seen, err := inspect(ctx, modules, compared, r.folder(s))
	if err != nil {
		return known, err
	}
	known.Exports, known.Problem = seen[0].Exports, seen[0].Error
	for i, p := range modules {
		if known.Reason == "" {
			known.Reason = seen[i].problem()
		}
		if err := writeStub(npmFolder(dir, p.Name), p, load, i, seen[i].Exports); err != nil {
			return known, err
		}
	}
	known.Bundled = known.Reason == ""
	return known, nil
}

// esbuild makes the bundle in the folder home. The reason is why that cannot be
// done, now or later.
func (r *Repo) esbuild(ctx context.Context, s specifier, modules []Package, home string) (reason string, err error) {
	esbuild, err := r.exactly(ctx, specifier{bundlerName, bundlerVersion}, func(string) {})
	if err != nil {
		return "", err
	}
	// The same as from where the bundle will be.
	toRoot, err := filepath.Rel(home, r.folder(s))
	if err != nil {
		return "", err
	}
	arguments := map[string]any{
		"esbuild": esbuild.Dir,
		"root":    r.folder(s),
		"out":     filepath.Join(home, bundleFile),
		"toRoot":  filepath.ToSlash(toRoot),
		"entries": entries(modules),
		"trusted": s.name == runtimeName, // it imports by absolute path and its own name only
	}
	var answer struct {
		Reason string `json:"reason"`
	}
	err = r.inTurn(ctx, func() error { return script{code: bundleScript}.ask(ctx, arguments, &answer) })
	return answer.Reason, err
}

func entries(modules []Package) []string {
	var paths []string
	for _, p := range modules {
		paths = append(paths, p.Entry)
	}
	return paths
}
