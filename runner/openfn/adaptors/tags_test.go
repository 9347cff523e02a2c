package adaptors

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestTagsAreLookedUpAndKept(t *testing.T) {
	w := fakes(t)
	w.one(t, "2.3.4")
	w.Set("@openfn/language-one", "dist-tags", map[string]string{"latest": "2.3.4", "next": "2.3.4"})
	r := open(t, Config{})
	for _, specifier := range []string{"@openfn/language-one", "@openfn/language-one@latest", "@openfn/language-one@next"} {
		p, err := r.Resolve(t.Context(), specifier, nil)
		require.NoError(t, err)
		require.Equal(t, "2.3.4", p.Version)
	}
	require.Equal(t, 1, w.Count("/@openfn/language-one"))
	require.Equal(t, []string{"@openfn/language-one@2.3.4"}, w.fetched())
}

// A tag is as old as its look-up; below, the registry's answer is good for five minutes.
func TestATagThatIsOldIsLookedUpAgain(t *testing.T) {
	w := fakes(t)
	r := open(t, Config{LatestFor: time.Nanosecond})
	for _, version := range []string{"1.0.0", "1.1.0"} {
		w.one(t, version)
		t.Setenv("npm_config_cache", t.TempDir()) // which forgets its answer
		p, err := r.Resolve(t.Context(), "@openfn/language-one@latest", nil)
		require.NoError(t, err)
		require.Equal(t, version, p.Version)
	}
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
	w := fakes(t)
	r := open(t, Config{})
	for _, version := range []string{"1.9.0", "1.10.0", "2.0.0-rc.1"} {
		w.one(t, version)
		_, err := r.Resolve(t.Context(), "@openfn/language-one@"+version, nil)
		require.NoError(t, err)
	}
	t.Setenv("npm_config_cache", t.TempDir()) // days later
	w.Fail(503)
	var lines []string
	p, err := r.Resolve(t.Context(), "@openfn/language-one", func(line string) { lines = append(lines, line) })
	require.NoError(t, err)
	require.Equal(t, "1.10.0", p.Version)
	require.Equal(t, []string{"the registry cannot be asked for the latest version of @openfn/language-one; using 1.10.0, the newest that is installed"}, lines)

	for _, specifier := range []string{"@openfn/language-one@next", "@openfn/language-two@latest"} {
		_, err = r.Resolve(t.Context(), specifier, nil)
		failure, ok := errors.AsType[*InstallError](err)
		require.True(t, ok, err)
		require.True(t, failure.Unable)
		require.Contains(t, failure.Reason, "is ill: ")
	}
	w.Fail(404)
	_, err = open(t, Config{Dir: r.Dir()}).Resolve(t.Context(), "@openfn/language-one", nil)
	require.ErrorContains(t, err, "the registry knows no such package", "it could be asked")
}

func TestATagWithoutAVersion(t *testing.T) {
	fakes(t)
	_, err := open(t, Config{}).Resolve(t.Context(), "@openfn/language-one@beta", nil)
	require.ErrorContains(t, err, "has no version with that tag")
}
