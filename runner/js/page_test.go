package js

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/runner/compile"
)

// The page has what is built in, and the words for which auto leaves a run to Node.
func TestThePageOfWhatIsBuiltIn(t *testing.T) {
	names := func(list []string) string { return "`" + strings.Join(list, "`, `") + "`" }
	var plain, paths, others []string
	for _, name := range slices.Sorted(maps.Keys(builtIn)) {
		if builtIn[name] == nil {
			plain = append(plain, name)
		} else {
			paths = append(paths, name)
		}
	}
	for _, name := range exported {
		if _, known := builtIn[name]; !known {
			others = append(others, name)
		}
	}
	var published []string
	forNode := slices.Sorted(maps.Keys(ofLanguages))
	for _, name := range missing {
		if packaged(compile.Use{Name: name}, commonAdaptor) {
			published = append(published, name)
		} else {
			forNode = append(forNode, name)
		}
	}
	runtest.Page(t, "../../docs/compatibility.md", t.Name(), fmt.Sprintf(`| what | names |
|---|---|
| versions of language-common, without one or with latest the last | %s |
| built in | %s |
| built in with a path of members, indices and %s that is written out | %s |
| built in for the last version alone | %s |
| published only | %s |
| global of published packages | %s |
| for Node in any job | %s, and what begins with %s |
| for Node with auto | %s, a BigInt such as %s, %s and %s by a function, %s with an argument that is no text, the operator %s, members of %s and of %s, %s with two functions, %s where the worker's time zone is not UTC |
| the same in both | of %s: %s |
`, names(commonVersions), names(plain), "`*`", names(paths), names(ofTheLast), names(others),
		names(published), names(forNode), "`toLocale`", names(slices.Sorted(maps.Keys(otherwise))), "`5n`", "`sort`", "`toSorted`",
		"`toString`", "`**`", "`Math`", "`RegExp`", "`then`", "`Date`", "`Math`", names(slices.Sorted(maps.Keys(alikeMath)))))
}
