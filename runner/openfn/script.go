package openfn

import (
	"embed"
	"errors"
	"path"
	"sync"

	"github.com/evanw/esbuild/pkg/api"
)

//go:embed host/*.mjs
var hostFiles embed.FS

// hostFile is the name of the host's file.
const hostFile = "host.cjs"

// hostScript returns the files of the folder host as one, which is made once. A job can import the file, and
// would have what its modules export if they were several.
var hostScript = sync.OnceValues(func() ([]byte, error) {
	result := api.Build(api.BuildOptions{
		EntryPoints: []string{"./host.mjs"}, Bundle: true, Format: api.FormatCommonJS, Platform: api.PlatformNode,
		Outfile: hostFile, LogLevel: api.LogLevelSilent,
		Plugins: []api.Plugin{{Name: "embedded", Setup: func(build api.PluginBuild) {
			build.OnResolve(api.OnResolveOptions{Filter: `^\./`}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
				return api.OnResolveResult{Path: path.Join("host", a.Path), Namespace: "embedded"}, nil
			})
			build.OnLoad(api.OnLoadOptions{Filter: ".*", Namespace: "embedded"}, func(a api.OnLoadArgs) (api.OnLoadResult, error) {
				raw, err := hostFiles.ReadFile(a.Path)
				text := string(raw)
				return api.OnLoadResult{Contents: &text}, err
			})
		}}},
	})
	if len(result.Errors) > 0 {
		return nil, errors.New("the host of the OpenFn engine cannot be made: " + result.Errors[0].Text)
	}
	return result.OutputFiles[0].Contents, nil
})
