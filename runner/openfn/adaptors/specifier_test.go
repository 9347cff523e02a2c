package adaptors

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestSpecifiersThatReachNPM(t *testing.T) {
	tests := []struct{ text, name, version string }{
		{"@openfn/language-http@7.2.10", "@openfn/language-http", "7.2.10"},
		{"@openfn/language-http", "@openfn/language-http", "latest"},
		{"@openfn/language-http@next", "@openfn/language-http", "next"},
		{"@openfn/language-http@1.0.0-rc.1", "@openfn/language-http", "1.0.0-rc.1"},
		{"@openfn/language-http@local", "@openfn/language-http", "local"},
		{"lodash@4.18.1", "lodash", "4.18.1"},
	}
	for _, tt := range tests {
		t.Run(tt.text, func(t *testing.T) {
			s, err := parse(tt.text)
			require.NoError(t, err)
			require.Equal(t, specifier{tt.name, tt.version}, s)
		})
	}
}

func TestSpecifiersThatDoNot(t *testing.T) {
	const name, version = "this is not the name of an npm package", "the version must be exact, such as 1.2.3, or a tag, such as latest"
	tests := []struct{ name, text, want string }{
		{"empty", "", name},
		{"scope alone", "@openfn/", name},
		{"option", "--prefix=x", name},
		{"option in a scope", "@openfn/-g", name},
		{"shell", "@openfn/x;id", name},
		{"command substitution", "@openfn/$(id)", name},
		{"space", "@openfn/language http", name},
		{"line", "@openfn/x\n", name},
		{"up", "@openfn/../../x", name},
		{"dots", "..", name},
		{"hidden", ".x", name},
		{"path", "/x/y", name},
		{"two folders", "a/b/c", name},
		{"address", "https://x/y.tgz", name},
		{"alias", "x@npm:y@1.0.0", name},
		{"capitals", "@openfn/X", name},
		{"too long", strings.Repeat("x", 215), name},
		{"range", "@openfn/x@^1.0.0", version},
		{"part", "@openfn/x@1.2", version},
		{"leading zero", "@openfn/x@1.02.0", version},
		{"up in the version", "@openfn/x@../y", version},
		{"no version", "@openfn/x@", version},
		{"repository", "@openfn/x@github:a/b", version},
		{"option as version", "@openfn/x@--global", version},
		{"long version", "@openfn/x@v" + strings.Repeat("x", 128), version},
	}
	r, err := Open(Config{Dir: t.TempDir()})
	require.NoError(t, err)
	w := fakes(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, err := r.Resolve(t.Context(), tt.text, nil)
			require.Equal(t, &InstallError{Specifier: tt.text, Reason: tt.want}, err)
		})
	}
	require.Empty(t, w.Paths())
}

func TestVersionsAreOrderedByNumber(t *testing.T) {
	sorted := []string{"9.0.0-a", "10.0.0-beta.3", "10.0.0-rc.2", "10.0.0-rc.10", "1.9.9", "1.10.0", "2.0.0", "10.0.0"}
	for i, a := range sorted {
		for j, b := range sorted {
			switch c := compareVersions(a, b); {
			case i < j:
				require.Negative(t, c, "%s %s", a, b)
			case i > j:
				require.Positive(t, c, "%s %s", a, b)
			default:
				require.Zero(t, c)
			}
		}
	}
}
