package adaptors

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTagsAreLookedUpAndKept(t *testing.T) {
	log := fakes(t)
	t.Setenv("FAKE_VERSION", "2.3.4")
	r := open(t, Config{})
	for _, specifier := range []string{"@openfn/language-one", "@openfn/language-one@latest", "@openfn/language-one@next"} {
		p, err := r.Resolve(t.Context(), specifier, nil)
		require.NoError(t, err)
		require.Equal(t, "2.3.4", p.Version)
	}
	require.Equal(t, []string{
		"view @openfn/language-one@latest version",
		"install @openfn/language-one@2.3.4",
		"install esbuild@" + bundlerVersion,
		"view @openfn/language-one@next version",
	}, logged(t, log))
}

func TestATagThatIsOldIsLookedUpAgain(t *testing.T) {
	log := fakes(t)
	r := open(t, Config{LatestFor: time.Nanosecond})
	for _, version := range []string{"1.0.0", "1.1.0"} {
		t.Setenv("FAKE_VERSION", version)
		p, err := r.Resolve(t.Context(), "@openfn/language-one@latest", nil)
		require.NoError(t, err)
		require.Equal(t, version, p.Version)
	}
	require.Len(t, logged(t, log), 5)
}

func TestValuesExpire(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := expiring[int]{goodFor: time.Minute}
		_, ok := e.get("k")
		require.False(t, ok)
		e.put("k", 7)
		time.Sleep(59 * time.Second)
		n, ok := e.get("k")
		require.True(t, ok)
		require.Equal(t, 7, n)
		time.Sleep(time.Second)
		_, ok = e.get("k")
		require.False(t, ok)
	})
}

func TestOfflineTheNewestInstalledIsTheLatest(t *testing.T) {
	fakes(t)
	r := open(t, Config{})
	for _, version := range []string{"1.9.0", "1.10.0", "2.0.0-rc.1"} {
		_, err := r.Resolve(t.Context(), "@openfn/language-one@"+version, nil)
		require.NoError(t, err)
	}
	const offline = "npm error code ENOTFOUND\nnpm error network request failed"
	t.Setenv("FAKE_STDERR", offline)
	var lines []string
	p, err := r.Resolve(t.Context(), "@openfn/language-one", func(line string) { lines = append(lines, line) })
	require.NoError(t, err)
	require.Equal(t, "1.10.0", p.Version)
	require.Equal(t, []string{"npm cannot be asked for the latest version of @openfn/language-one; using 1.10.0, the newest that is installed"}, lines)

	for _, specifier := range []string{"@openfn/language-one@next", "@openfn/language-two@latest"} {
		_, err = r.Resolve(t.Context(), specifier, nil)
		require.Equal(t, &InstallError{Specifier: specifier, Reason: "npm's registry cannot be reached from this worker\n" + offline, Unable: true}, err)
	}
	t.Setenv("FAKE_STDERR", "npm error code E404")
	_, err = open(t, Config{Dir: r.Dir()}).Resolve(t.Context(), "@openfn/language-one", nil)
	require.ErrorContains(t, err, "npm knows no such package", "npm could be asked")
}

func TestATagWithoutAVersion(t *testing.T) {
	fakes(t)
	t.Setenv("FAKE_VERSION", "")
	_, err := open(t, Config{}).Resolve(t.Context(), "@openfn/language-one@beta", nil)
	require.Equal(t, &InstallError{Specifier: "@openfn/language-one@beta", Reason: "npm has no version of this package with that tag"}, err)
}
