package adaptors

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"strings"
)

// A stub is an ES module that exports what a module of a bundle does, so that
// whoever imports it need not know of bundles.
const (
	stubHead   = "import { createRequire } from \"node:module\";\nconst m = createRequire(import.meta.url)(%s).load()[%d];\n"
	stubExport = "const e%[1]d = m[%[2]s];\nexport { e%[1]d as %[3]s };\n"
)

// writeStub makes a package of the module of a bundle that has an index.
func writeStub(dir string, p Package, load string, index int, exports []string) error {
	path, err := filepath.Rel(dir, load)
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(map[string]string{"name": p.Name, "version": p.Version, "type": "module", "exports": "./index.js"})
	if err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, "package.json"), manifest); err != nil {
		return err
	}
	return writeFile(filepath.Join(dir, "index.js"), []byte(stub("./"+filepath.ToSlash(path), index, exports)))
}

func stub(load string, index int, exports []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, stubHead, quote(load), index)
	for i, name := range exports {
		from := name
		if name == "module.exports" {
			from = "default" // Node 23 has this name beside it, for CommonJS
		}
		fmt.Fprintf(&b, stubExport, i, quote(from), quote(name))
	}
	return b.String()
}

// quote makes a JavaScript literal of text.
func quote(text string) string {
	raw, _ := json.Marshal(text) // a string never fails
	return string(raw)
}
