package npm

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/npmtest"
)

func TestSettingsAreFoundWhereNPMHasThem(t *testing.T) {
	home, project, machine := npmrc(t,
		"registry = https://user.example/npm", "; a comment", "# another one", "[section]", `@quoted:registry="https://quoted.example/"`,
		"@own:registry=https://${HOST}/own/", "//own.example/own/:_authToken=${TOKEN}", "//maybe.example/:_authToken=${NOT_SET?}", "fetch-retries=1 ; why",
		"//basic.example/:_auth=dTpw", "//named.example/:username=u", "//named.example/:_password=cA==", "legacy-peer-deps",
	), npmrc(t, "registry=https://project.example/"), filepath.Join(npmrc(t, "strict-ssl=false", "fetch-retries=9"), ".npmrc")
	load := func(env ...string) *Settings {
		t.Helper()
		s, err := Load(project, append([]string{"HOME=" + home, "HOST=own.example", "TOKEN=secret", "npm_config_globalconfig=" + machine}, env...), nil)
		require.NoError(t, err)
		return &s
	}
	s := load()
	require.Equal(t, "https://project.example/", s.registryOf("a"))
	require.Equal(t, "https://own.example/own/", s.registryOf("@own/a"))
	require.Equal(t, "https://quoted.example/", s.registryOf("@quoted/a"))
	require.Equal(t, 1, s.retries)
	require.True(t, s.insecure)
	require.True(t, s.legacyPeers)
	require.Equal(t, "https://env.example/", load("NPM_CONFIG_REGISTRY=https://env.example").registryOf("a"))
	require.Equal(t, "https://other.example/", load("npm_config_@own:registry=https://other.example/").registryOf("@own/a"))
	for address, want := range map[string]string{
		"https://own.example/own/a": "Bearer secret", "https://own.example/own/a/-/a.tgz": "Bearer secret", "https://own.example/": "", "https://own.example/owner": "",
		"https://own.example:444/own/a": "", "https://basic.example/x/y": "Basic dTpw", "https://named.example/x": "Basic dTpw", "https://project.example/a": "", "https://maybe.example/": "Bearer ",
	} {
		require.Equal(t, want, s.loginFor(mustParse(t, address)).authorization, address)
	}
}

func TestSettingsThatCannotBeUsed(t *testing.T) {
	tests := []struct{ name, line, want string }{
		{"no address", "registry=registry", "npm's settings: registry is not the address of a registry: write one such as https://registry.example/"},
		{"a token for nobody", "_authToken=hush", "npm's settings: _authToken has to say for which registry it is, as in //registry.example/:_authToken=…"},
		{"a variable that is not set", "//r.example/:_authToken=${HUSH}", "npm's settings: //r.example/:_authToken speaks of a variable that is not set, or is the worker's own"},
		{"a variable that is hidden", "//r.example/:_authToken=${WORKER_SECRET}", "npm's settings: //r.example/:_authToken speaks of a variable that is not set, or is the worker's own"},
		{"neither true nor false", "strict-ssl=maybe", "npm's settings: strict-ssl has to be true or false"},
		{"no number", "fetch-retries=many", "npm's settings: fetch-retries has to be a number"},
		{"no date", "before=soon", "npm's settings: before has to be a date such as 2026-01-31"},
		{"no base64", "//r.example/:_password=hush!", "npm's settings: //r.example/:_password has to be in base64"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			hidden := func(name string) bool { return strings.HasPrefix(name, "WORKER_") }
			_, err := Load(npmrc(t, tt.line), []string{"WORKER_SECRET=hush"}, hidden)
			require.EqualError(t, err, tt.want)
		})
	}
}

// A proxy is asked for everything but what is excepted.
func TestProxies(t *testing.T) {
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked = append(asked, r.URL.String())
		w.WriteHeader(http.StatusNotFound)
	}))
	defer proxy.Close()
	for _, env := range []string{"HTTP_PROXY=" + proxy.URL, "npm_config_proxy=" + proxy.URL} {
		for noProxy, want := range map[string][]string{"": {"http://registry.example/bad"}, "registry.example": nil} {
			asked = nil
			s, err := Load(npmrc(t, "registry=http://registry.example/", "fetch-retries=0"), []string{env, "NO_PROXY=" + noProxy}, nil)
			require.NoError(t, err)
			c, err := New(Config{Settings: s, Cache: t.TempDir()})
			require.NoError(t, err)
			at, err := c.transport.proxy(mustParse(t, "http://registry.example/"))
			require.NoError(t, err)
			require.Equal(t, want == nil, at == nil)
			if want != nil {
				_, err = c.Version(t.Context(), "bad", "latest")
				require.ErrorContains(t, err, "says 404")
			}
			require.Equal(t, want, asked)
			c.Close()
		}
	}
}

func TestCertificates(t *testing.T) {
	r := npmtest.Serve(t)
	r.Publish(t, "bad", "1.0.0", "")
	secure := httptest.NewTLSServer(r.Config.Handler)
	defer secure.Close()
	path := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	require.NoError(t, os.WriteFile(path, text, 0o600))
	version := func(env []string, lines ...string) (string, error) {
		s, err := Load(npmrc(t, append(lines, "registry="+secure.URL, "fetch-retries=0")...), env, nil)
		require.NoError(t, err)
		c, err := New(Config{Settings: s, Cache: t.TempDir()})
		require.NoError(t, err)
		defer c.Close()
		return c.Version(t.Context(), "bad", "latest")
	}
	_, err := version(nil)
	require.ErrorAs(t, err, &x509.UnknownAuthorityError{})
	require.ErrorContains(t, err, "cannot be reached from this worker: ")
	for _, line := range []string{"cafile=" + path, "strict-ssl=false", `ca="` + strings.ReplaceAll(string(text), "\n", `\n`) + `"`} {
		found, err := version(nil, line)
		require.NoError(t, err, line)
		require.Equal(t, "1.0.0", found)
	}
	_, err = version([]string{"NODE_EXTRA_CA_CERTS=" + path})
	require.NoError(t, err)
}

// What npm prefers among the versions of a range.
func TestPick(t *testing.T) {
	r := npmtest.Serve(t)
	for version, manifest := range map[string]string{
		"1.0.0": "", "1.1.0": "", "1.2.0": `{"deprecated":"no"}`, "1.3.0": `{"engines":{"node":">=24"}}`, "1.4.0-rc.1": "",
		"2.0.0": `{"deprecated":"no"}`, "3.0.0": `{"engines":{"node":"^24 || >=26"}}`, "3.1.0": `{"engines":{"node":">=99"},"deprecated":"no"}`,
	} {
		r.Publish(t, "bad", version, manifest)
	}
	r.Set("bad", "dist-tags", map[string]string{"latest": "1.1.0", "next": "1.4.0-rc.1"})
	r.Set("bad", "time", map[string]string{"1.0.0": "2026-01-01T00:00:00Z", "1.1.0": "2026-02-01T00:00:00Z", "3.0.0": "2026-03-01T00:00:00Z"})
	old := time.Date(2026, 1, 15, 0, 0, 0, 0, time.UTC)
	tests := []struct {
		wanted string
		by     choice
		want   string
	}{
		{"latest", choice{}, "1.1.0"},
		{"next", choice{}, "1.4.0-rc.1"},
		{"*", choice{}, "1.1.0"},
		{"", choice{}, "1.1.0"},
		{"^1", choice{}, "1.1.0"},
		{"^1.2", choice{}, "1.3.0"},
		{"^1.2", choice{node: "22.1.0"}, "1.2.0"},
		{">=2", choice{node: "22.1.0"}, "2.0.0"},
		{">=2", choice{node: "24.1.0"}, "3.0.0"},
		{"^1.4.0-rc.0", choice{}, "1.4.0-rc.1"},
		{"2 - 3.0", choice{}, "3.0.0"},
		{"=1.0.0", choice{}, "1.0.0"},
		{"v1.0.0", choice{}, "1.0.0"},
		{"latest", choice{before: old}, "1.0.0"},
		{"^1", choice{before: old, node: "22.1.0"}, "1.0.0"},
	}
	for _, tt := range tests {
		c := client(t, r, Config{})
		tt.by.tag = "latest"
		c.by = tt.by
		got, err := c.Version(t.Context(), "bad", tt.wanted)
		require.NoError(t, err, "%+v", tt)
		require.Equal(t, tt.want, got, "%+v", tt)
	}
	for _, wanted := range []string{"9", "none", "1.0.9"} {
		_, err := client(t, r, Config{}).Version(t.Context(), "bad", wanted)
		require.ErrorContains(t, err, "bad@"+wanted+": ")
	}
}

func TestPlatforms(t *testing.T) {
	linux := platform{"linux", "x64", "glibc"}
	for _, tt := range []struct {
		m    manifest
		want bool
	}{
		{manifest{}, true},
		{manifest{OS: list{"linux", "darwin"}}, true},
		{manifest{OS: list{"!win32"}}, true},
		{manifest{OS: list{"!linux"}}, false},
		{manifest{CPU: list{"arm64"}}, false},
		{manifest{CPU: list{"any"}}, true},
		{manifest{OS: list{"linux"}, CPU: list{"x64"}, Libc: list{"musl"}}, false},
	} {
		require.Equal(t, tt.want, linux.runs(&tt.m), "%+v", tt.m)
	}
}

// What is optional and cannot be had is left out with what only it needs.
func TestWhatIsOptional(t *testing.T) {
	r := npmtest.Serve(t)
	r.Publish(t, "bad", "1.0.0", `{"optionalDependencies":{"gone":"1","alien":"1","fine":"1"},"dependencies":{"shared":"1"}}`)
	r.Publish(t, "alien", "1.0.0", `{"os":["plan9"],"dependencies":{"only":"1","shared":"1"}}`)
	for _, name := range []string{"only", "shared", "fine"} {
		r.Publish(t, name, "1.0.0", "")
	}
	c := client(t, r, Config{})
	tree, err := c.Resolve(t.Context(), "bad", "1.0.0")
	require.NoError(t, err)
	require.Equal(t, "node_modules/bad bad 1.0.0\nnode_modules/fine fine 1.0.0\nnode_modules/shared shared 1.0.0\n", tree.lines())
	_, err = c.Resolve(t.Context(), "alien", "1.0.0")
	require.ErrorContains(t, err, "alien@1.0.0: it is not for this system (")
}
