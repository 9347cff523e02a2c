package adaptors

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const one = "@openfn/language-one@1.0.0"

func open(t testing.TB, cfg Config) *Repo {
	t.Helper()
	if cfg.Dir == "" {
		cfg.Dir = filepath.Join(t.TempDir(), "not", "there")
	}
	cfg.Env = append(cfg.Env, ofTheFakes...)
	r, err := Open(cfg)
	require.NoError(t, err)
	return r
}

// logged are the commands that the fake npm was given.
func logged(t *testing.T, log string) []string {
	t.Helper()
	raw, err := os.ReadFile(log)
	require.NoError(t, err)
	return strings.Split(strings.TrimSuffix(string(raw), "\n"), "\n")[:strings.Count(string(raw), "\n")]
}

// fifo sets a variable to the path of a new pipe.
func fifo(t *testing.T, variable string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), variable)
	require.NoError(t, syscall.Mkfifo(path, 0o600))
	t.Setenv(variable, path)
	return path
}

// names are what is in a folder.
func names(t *testing.T, dir string) (names []string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func TestInstallsOnDemandAndOnce(t *testing.T) {
	log := fakes(t)
	r := open(t, Config{})
	var lines []string
	p, err := r.Resolve(t.Context(), one, func(line string) { lines = append(lines, line) })
	require.NoError(t, err)
	dir := filepath.Join(r.Dir(), one, "node_modules", "@openfn", "language-one")
	require.Equal(t, Package{
		Name: "@openfn/language-one", Version: "1.0.0", Dir: dir,
		Entry: filepath.Join(dir, "lib", "index.js"), Exports: []string{"default", "fn"},
	}, p)
	require.Len(t, lines, 2)
	require.Equal(t, "Installing "+one, lines[0])
	require.Regexp(t, "^Installed "+one+` in \d`, lines[1])

	again, err := open(t, Config{Dir: r.Dir()}).Resolve(t.Context(), one, func(line string) { require.Fail(t, line) })
	require.NoError(t, err)
	require.Equal(t, p, again)
	_, err = r.Resolve(t.Context(), "@openfn/language-one@2.0.0", nil)
	require.NoError(t, err)

	require.Equal(t, []string{"install " + one, "install esbuild@" + bundlerVersion, "install @openfn/language-one@2.0.0"}, logged(t, log))
	require.Equal(t, []string{"language-one@1.0.0", "language-one@2.0.0"}, names(t, filepath.Join(r.Dir(), "@openfn")))
	list, err := r.List()
	require.NoError(t, err)
	require.Len(t, list, 3)
	require.Equal(t, p, list[0])
	require.Equal(t, "2.0.0", list[1].Version)
	require.Equal(t, "esbuild", list[2].Name)
}

func TestARepoThatIsNotThereIsEmpty(t *testing.T) {
	list, err := open(t, Config{}).List()
	require.NoError(t, err)
	require.Empty(t, list)
}

func TestConcurrentRunsShareAnInstall(t *testing.T) {
	log := fakes(t)
	begun, gate := fifo(t, "FAKE_BEGUN"), fifo(t, "FAKE_GATE")
	r := open(t, Config{})
	type outcome struct {
		p   Package
		err error
	}
	out, told := make(chan outcome, 2), make(chan string, 8)
	for range 2 {
		go func() {
			p, err := r.Resolve(t.Context(), one, func(line string) { told <- line })
			out <- outcome{p, err}
		}()
	}
	_, err := os.ReadFile(begun)
	require.NoError(t, err)
	require.Equal(t, "Installing "+one, <-told)
	require.Equal(t, "Installing "+one, <-told, "both are told")
	require.NoError(t, os.WriteFile(gate, nil, 0o600))
	a, b := <-out, <-out
	require.NoError(t, a.err)
	require.Equal(t, a, b)
	require.Equal(t, 1, strings.Count(strings.Join(logged(t, log), "\n"), one))
}

func TestTheEndOfTheRepoKillsAnInstall(t *testing.T) {
	fakes(t)
	begun, held := fifo(t, "FAKE_BEGUN"), fifo(t, "FAKE_HELD")
	fifo(t, "FAKE_GATE")
	r := open(t, Config{})
	ctx, cancel := context.WithCancelCause(t.Context())
	out := make(chan error)
	go func() {
		_, err := r.Resolve(ctx, one, nil)
		out <- err
	}()
	_, err := os.ReadFile(begun)
	require.NoError(t, err)
	child, err := os.Open(held) // the child of npm has it open
	require.NoError(t, err)
	defer child.Close()
	cancel(errNobody)
	require.ErrorIs(t, <-out, errNobody)
	r.Close()
	_, err = io.ReadAll(child)
	require.NoError(t, err, "the child of npm is dead")
	require.Empty(t, names(t, filepath.Join(r.Dir(), "@openfn")), "nothing half done")
}

func TestWhoInstalledFirstWins(t *testing.T) {
	fakes(t)
	r := open(t, Config{})
	t.Setenv("FAKE_FIRST", filepath.Join(r.Dir(), one)) // as another process would
	_, err := r.Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	require.FileExists(t, filepath.Join(r.Dir(), one, "theirs"))
	require.Equal(t, []string{"language-one@1.0.0"}, names(t, filepath.Join(r.Dir(), "@openfn")))
}

func TestWhatTheDeadHaveLeftIsSwept(t *testing.T) {
	fakes(t)
	r := open(t, Config{})
	scope := filepath.Join(r.Dir(), "@openfn")
	for name, age := range map[string]time.Duration{"old": 2 * time.Hour, "new": time.Minute} {
		dir := filepath.Join(scope, unfinished+name)
		require.NoError(t, os.MkdirAll(filepath.Join(dir, "node_modules"), 0o700))
		require.NoError(t, os.Chtimes(dir, time.Time{}, time.Now().Add(-age)))
	}
	_, err := r.Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	require.Equal(t, []string{unfinished + "new", "language-one@1.0.0"}, names(t, scope))
}

// Of the worker's environment, npm gets what it needs and what it is granted by name.
func TestWhatNPMSeesOfTheWorker(t *testing.T) {
	log := fakes(t)
	given := map[string]string{"HTTPS_PROXY": "proxy.example", "npm_config_registry": "registry.example", "NPM_CONFIG_CAFILE": "ca.pem", "NODE_EXTRA_CA_CERTS": "more.pem", "HOME": t.TempDir(), "ASKED_TOKEN": "asked"}
	for name, value := range given {
		t.Setenv(name, value)
	}
	kept := []string{"WORKER_SECRET", "NPM_TOKEN", "AWS_SECRET_ACCESS_KEY", "DATABASE_URL", "ASKED_TOKEN_2", "NODE_OPTIONS"}
	for _, name := range kept {
		t.Setenv(name, "hush")
	}
	t.Setenv("NODE_OPTIONS", "")
	_, err := open(t, Config{Env: []string{"ASKED_TOKEN", "NOT_SET"}}).Resolve(t.Context(), one, nil)
	require.NoError(t, err)
	raw, err := os.ReadFile(log + ".env")
	require.NoError(t, err)
	seen := map[string]string{}
	for line := range strings.Lines(string(raw)) {
		name, value, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		seen[name] = value
	}
	for name, value := range given {
		require.Equal(t, value, seen[name], name)
	}
	for _, name := range kept {
		require.NotContains(t, seen, name)
	}
	require.NotContains(t, string(raw), "hush")
}

// Guards against an npm behind a shim, or with settings of Node's, that fails and does not say
// what it misses.
func TestAFailureNamesTheVariablesThatNPMDidNotGet(t *testing.T) {
	fakes(t)
	plain(t)
	for _, name := range []string{"VOLTA_HOME", "NODE_TLS_REJECT_UNAUTHORIZED", "NVM_DIR", "NODE_OPTIONS", "NPM_TOKEN", "AWS_SECRET_ACCESS_KEY", "npm_config_x"} {
		t.Setenv(name, "hush")
	}
	t.Setenv("FAKE_STDERR", "Volta error: Could not find executable")
	_, err := open(t, Config{Env: []string{"NVM_*"}}).Resolve(t.Context(), one, nil)
	require.EqualError(t, err, "Error installing "+one+": npm failed: exit status 1\nVolta error: Could not find executable\n"+
		"npm did not get NODE_OPTIONS, NODE_TLS_REJECT_UNAUTHORIZED, NPM_TOKEN, VOLTA_HOME of the worker's environment: name with --npm-env what it needs")
}

// plain takes away what of the tests' own environment would be named.
func plain(t *testing.T) {
	t.Helper()
	for _, name := range new(Repo).keptBack() {
		t.Setenv(name, "")
	}
}

func TestWhyAPackageIsNotInstalled(t *testing.T) {
	tests := []struct {
		name string
		env  map[string]string
		want string
		// unable tells that others would not be installed either.
		unable bool
	}{
		{
			"unknown version",
			map[string]string{"FAKE_STDERR": "npm warn old\nnpm error code ETARGET\nnpm error notarget No matching version found for x.\nnpm error A complete log of this run can be found in: /home/log"},
			"npm has no such version\nnpm error code ETARGET\nnpm error notarget No matching version found for x.",
			false,
		},
		{
			"unknown package",
			map[string]string{"FAKE_STDERR": "npm error code E404\nnpm error 404\nnpm error 404 Not Found"},
			"npm knows no such package or version, or may not give it out\nnpm error code E404\nnpm error 404\nnpm error 404 Not Found",
			false,
		},
		{
			"no network, older npm",
			map[string]string{"FAKE_STDERR": "npm ERR! code EAI_AGAIN\nnpm ERR! request failed"},
			"npm's registry cannot be reached from this worker\nnpm ERR! code EAI_AGAIN\nnpm ERR! request failed",
			true,
		},
		{
			"a trace of npm's own code",
			map[string]string{"FAKE_STDERR": "npm error code ECONNREFUSED\nnpm error syscall connect\nnpm error errno ECONNREFUSED\nnpm error FetchError: request to somewhere failed\n" +
				"npm error     at ClientRequest.<anonymous> (/usr/lib/npm/index.js:130:14)\nnpm error     at process.processTicksAndRejections (node:internal:1:2) {\nnpm error   code: 'ECONNREFUSED',\nnpm error   errno: 'ECONNREFUSED',\nnpm error   requiredBy: '.'\nnpm error }\n" +
				"npm error If you are behind a proxy"},
			"npm's registry cannot be reached from this worker\nnpm error code ECONNREFUSED\nnpm error syscall connect\nnpm error errno ECONNREFUSED\nnpm error FetchError: request to somewhere failed\nnpm error If you are behind a proxy", true,
		},
		{"an ill registry", map[string]string{"FAKE_STDERR": "npm error code E503"}, "npm's registry cannot be reached from this worker\nnpm error code E503", true},
		{"a proxy", map[string]string{"FAKE_STDERR": "npm error code SELF_SIGNED_CERT_IN_CHAIN"}, "npm's registry cannot be reached from this worker\nnpm error code SELF_SIGNED_CERT_IN_CHAIN", true},
		{"credentials", map[string]string{"FAKE_STDERR": "npm error code E401"}, "npm's registry wants other credentials\nnpm error code E401", true},
		{"not allowed", map[string]string{"FAKE_STDERR": "npm error code E403"}, "npm's registry refuses to give this package out\nnpm error code E403", false},
		{"offline on purpose", map[string]string{"FAKE_STDERR": "npm error code ENOTCACHED"}, "npm is set to be offline, and the package is not installed\nnpm error code ENOTCACHED", false},
		{"npm's own folder is full", map[string]string{"FAKE_STDERR": "npm error code ENOSPC"}, "no space left on the disk\nnpm error code ENOSPC", true},
		{"another failure", map[string]string{"FAKE_STDERR": "npm error code EWHATEVER"}, "npm failed\nnpm error code EWHATEVER", false},
		{"broken npm", map[string]string{"FAKE_STDERR": "Segmentation fault"}, "npm failed: exit status 1\nSegmentation fault", true},
		{"killed", map[string]string{"FAKE_SIGNAL": "9"}, "npm failed: signal: killed", true},
		{"another version", map[string]string{"FAKE_INSTALLED": "3.0.0"}, "npm installed version 3.0.0", false},
		{"another package", map[string]string{"FAKE_NAME": "@openfn/runtime"}, `what npm installed calls itself "@openfn/runtime"`, false},
		{"a name that is a path", map[string]string{"FAKE_NAME": "../../../../../evil"}, `what npm installed calls itself "../../../../../evil"`, false},
		{"a link that leads out", map[string]string{"FAKE_LINK": "/etc"}, "node_modules/link is a link that leads out of the package's folder", false},
		{"a link up and out", map[string]string{"FAKE_LINK": "../../../../not"}, "node_modules/link is a link that leads out of the package's folder", false},
		{"a file that npm did not write", map[string]string{"FAKE_UNWRITTEN": "EIO: i/o error, write"}, "the disk has a fault\nEIO: i/o error, write", true},
		{"a package that is cut short", map[string]string{"FAKE_LISTED": "{"}, "the folder for adaptors cannot be used: node_modules/needed was not installed whole: unexpected end of JSON input", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			fakes(t)
			plain(t)
			for name, value := range tt.env {
				t.Setenv(name, value)
			}
			r := open(t, Config{})
			_, err := r.Resolve(t.Context(), one, nil)
			require.Equal(t, &InstallError{Specifier: one, Reason: tt.want, Unable: tt.unable}, err)
			require.EqualError(t, err, "Error installing "+one+": "+tt.want)
			require.Empty(t, names(t, filepath.Join(r.Dir(), "@openfn")))
			require.NoDirExists(t, filepath.Join(filepath.Dir(r.Dir()), "evil"))
		})
	}
}

func TestAModuleThatIsElsewhere(t *testing.T) {
	fakes(t)
	for _, main := range []string{"../../../../../../x.js", "/../../x.js"} {
		t.Setenv("FAKE_MAIN", main)
		_, err := open(t, Config{}).Resolve(t.Context(), one, nil)
		require.ErrorContains(t, err, "its module is outside of its folder: ", main)
	}
}

func TestWithoutNPM(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	for _, specifier := range []string{one, "@openfn/language-one", "@openfn/language-one@latest"} {
		_, err := open(t, Config{}).Resolve(t.Context(), specifier, nil)
		var install *InstallError
		require.ErrorAs(t, err, &install)
		require.Equal(t, noNPM, install.Reason)
		require.True(t, install.Unable)
	}
}

func TestAFolderThatCannotBeUsed(t *testing.T) {
	fakes(t)
	file := filepath.Join(t.TempDir(), "file")
	require.NoError(t, os.WriteFile(file, nil, 0o600))
	_, err := open(t, Config{Dir: file}).Resolve(t.Context(), one, nil)
	require.ErrorContains(t, err, "Error installing "+one+": ")
	require.ErrorContains(t, err, "not a directory")
}
