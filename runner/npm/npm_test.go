package npm

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/internal/npmtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func npmrc(t testing.TB, lines ...string) (folder string) {
	t.Helper()
	folder = t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(folder, ".npmrc"), []byte(strings.Join(lines, "\n")+"\n"), 0o600))
	return folder
}

// settings are those of an .npmrc.
func settings(t testing.TB, lines ...string) Settings {
	t.Helper()
	s, err := Load(npmrc(t, lines...), []string{"HOME=" + t.TempDir()}, nil)
	require.NoError(t, err)
	return s
}

// client returns one of the registry, with more settings.
func client(t testing.TB, r *npmtest.Registry, cfg Config, lines ...string) *Client {
	t.Helper()
	cfg.Settings = settings(t, append([]string{"registry=" + r.URL, "fetch-retry-mintimeout=1", "fetch-retry-maxtimeout=1"}, lines...)...)
	if cfg.Cache == "" {
		cfg.Cache = t.TempDir()
	}
	c, err := New(cfg)
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

// lacking skips a test for a want of this machine, which CI has not.
func lacking(t testing.TB, why string) {
	t.Helper()
	if os.Getenv("CI") != "" {
		t.Fatal(why + ", and CI must have it")
	}
	t.Skip(why)
}

// A question is what both npm and this package are asked.
type question struct {
	Registry string `json:"registry"`
	Name     string `json:"name"`
	Wanted   string `json:"wanted"`
}

type answer struct {
	Packages map[string]struct {
		Name, Version string
		Optional      bool
		OS, CPU, Libc list
		Link          bool
	}
	Code, Message string
}

// askNPM returns what npm does, and the version of Node that it does it for.
func askNPM(t testing.TB, patience time.Duration, questions []question) (answers []answer, node string) {
	t.Helper()
	path, err := exec.LookPath("npm")
	if err != nil {
		lacking(t, "this test needs npm in the path")
	}
	path, err = filepath.EvalSymlinks(path)
	require.NoError(t, err)
	input, err := json.Marshal(questions)
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "node", "testdata/arborist.mjs", filepath.Dir(filepath.Dir(path)), t.TempDir(), strconv.FormatInt(patience.Milliseconds(), 10))
	cmd.Stdin, cmd.Stderr = bytes.NewReader(input), os.Stderr
	out, err := cmd.Output()
	require.NoError(t, err)
	require.NoError(t, json.Unmarshal(out, &answers))
	version, err := exec.CommandContext(t.Context(), "node", "--version").Output()
	require.NoError(t, err)
	return answers, strings.TrimPrefix(strings.TrimSpace(string(version)), "v")
}

// lines are the packages of a tree, by path.
func (tree *Tree) lines() string {
	var b strings.Builder
	for _, p := range tree.Packages {
		fmt.Fprintln(&b, p.Path, p.Name, p.Version)
	}
	return b.String()
}

// lines are those of npm's tree that are for this system.
func (a answer) lines() string {
	tree := &Tree{}
	for path, p := range a.Packages {
		if !p.Optional || thisPlatform().runs(&manifest{OS: p.OS, CPU: p.CPU, Libc: p.Libc}) {
			tree.Packages = append(tree.Packages, Package{Path: path, Name: p.Name, Version: p.Version})
		}
	}
	tree.sort()
	return tree.lines()
}

// linked reports whether npm makes links, which nothing here does.
func (a answer) linked() bool {
	for _, p := range a.Packages {
		if p.Link {
			return true
		}
	}
	return false
}

// invent publishes packages that need one another at random.
func invent(t testing.TB, r *npmtest.Registry, random *rand.Rand, prefix string) (root string) {
	t.Helper()
	names := 3 + random.IntN(5)
	name := func(i int) string { return fmt.Sprintf("%s%c", prefix, 'a'+i) }
	ranges := []string{"*", "^1.0.0", "^2.0.0", "^1.1.0", "~1.0.0", "1.x || 2.x", ">=1", "<2", "2", "1", "^3", "^2.0.0 || ^3", "latest", "<=1.2"}
	some := func(i, most int, peers bool) map[string]string {
		found := map[string]string{}
		for range random.IntN(most + 1) {
			wanted := ranges[random.IntN(len(ranges))]
			if peers && random.IntN(2) == 0 {
				wanted = ranges[random.IntN(4)]
			}
			on := name(min(names-1, i+1+random.IntN(names)))
			if random.IntN(12) == 0 {
				wanted = "npm:" + name(random.IntN(names)) + "@" + wanted
				on = prefix + "alias"
			}
			found[on] = wanted
		}
		return found
	}
	for i := range names {
		for _, version := range []string{"1.0.0", "1.1.0", "1.2.0", "2.0.0", "2.1.0", "3.0.0-beta.1", "3.0.0"} {
			if random.IntN(8) == 0 {
				continue
			}
			manifest := map[string]any{"dependencies": some(i, 4, false)}
			if random.IntN(3) == 0 {
				manifest["peerDependencies"] = some(i, 2, true)
				if random.IntN(3) == 0 {
					meta := map[string]any{}
					for on := range manifest["peerDependencies"].(map[string]string) {
						meta[on] = map[string]bool{"optional": true}
					}
					manifest["peerDependenciesMeta"] = meta
				}
			}
			if random.IntN(4) == 0 {
				manifest["optionalDependencies"] = some(i, 2, false)
			}
			if random.IntN(10) == 0 {
				manifest["deprecated"] = "do not use it"
			}
			if random.IntN(10) == 0 {
				manifest["engines"] = map[string]string{"node": ">=99"}
			}
			if random.IntN(20) == 0 {
				manifest["os"] = []string{"plan9"}
			}
			text, err := json.Marshal(manifest)
			require.NoError(t, err)
			r.Publish(t, name(i), version, string(text))
		}
	}
	return name(0)
}

// Packages are invented: npm itself says where they go.
func TestTheTreeIsNPMs(t *testing.T) {
	const trees = 6
	seed := uint64(9)
	if text := os.Getenv("NPM_TEST_SEED"); text != "" {
		_, err := fmt.Sscan(text, &seed)
		require.NoError(t, err)
	}
	t.Log("seed ", seed)
	random := rand.New(rand.NewPCG(seed, 1))
	r := npmtest.Serve(t)
	var questions []question
	for i := range trees {
		root := invent(t, r, random, fmt.Sprintf("t%d-", i))
		if r.Has(root) {
			questions = append(questions, question{r.URL, root, "*"})
		}
	}
	answers, node := askNPM(t, 20*time.Second, questions)
	c := client(t, r, Config{Node: node})
	same, failed, untold := 0, 0, 0
	for i, q := range questions {
		tree, err := c.Resolve(t.Context(), q.Name, q.Wanted)
		switch {
		case answers[i].Code == "ENDLESS", strings.HasPrefix(answers[i].Code, "TypeError"):
			untold++
		case answers[i].Code != "":
			failed++
			require.Error(t, err, "%s: npm says %s: %s", q.Name, answers[i].Code, answers[i].Message)
		case answers[i].linked():
			require.ErrorContains(t, err, "it needs itself below itself", q.Name)
		default:
			require.NoError(t, err, q.Name)
			require.Equal(t, answers[i].lines(), tree.lines(), "seed %d, %s", seed, q.Name)
			same++
		}
	}
	t.Logf("%d of %d trees are the same; %d cannot be; of %d, npm cannot tell", same, len(questions), failed, untold)
	require.NotZero(t, same)
}

// What is optional and for another Node is left out, with what only it needs, as npm does; what is needed is not. A package that would lie
// below itself, where npm makes a link, is no reason to give up if it is left out.
func TestWhatIsOptionalAndForAnotherNodeIsLeftOut(t *testing.T) {
	r := npmtest.Serve(t)
	for name, manifest := range map[string]string{
		"optional": `{"optionalDependencies":{"later":"1"}}`,
		"needed":   `{"dependencies":{"later":"1"}}`,
		"later":    `{"engines":{"node":">=99"},"dependencies":{"helper":"1"}}`,
		"helper":   ``,
		"round":    `{"dependencies":{"turn":"1"}}`,
		"for-good": `{"dependencies":{"well":"1"}}`,
	} {
		r.Publish(t, name, "1.0.0", manifest)
	}
	for _, one := range []struct{ name, second string }{{"turn", `{"engines":{"node":">=99"},"dependencies":{"turn":"1"}}`}, {"well", `{"dependencies":{"well":"1"}}`}} {
		r.Publish(t, one.name, "1.0.0", `{"optionalDependencies":{"`+one.name+`":"2"}}`)
		r.Publish(t, one.name, "2.0.0", one.second)
	}
	c := client(t, r, Config{Node: "20.20.2"})
	for name, want := range map[string][]string{
		"optional": {"optional"}, "needed": {"helper", "later", "needed"}, "round": {"round", "turn"},
	} {
		tree, err := c.Resolve(t.Context(), name, "1.0.0")
		require.NoError(t, err, name)
		var paths []string
		for _, p := range tree.Packages {
			paths = append(paths, strings.TrimPrefix(p.Path, "node_modules/"))
		}
		require.Equal(t, want, paths)
	}
	tree, err := c.Resolve(t.Context(), "for-good", "1.0.0")
	require.ErrorContains(t, err, "it needs itself below itself", tree)
}

// A tree is not made again, nor is what the registry says read, as long as that says the same.
func TestATreeIsRecalled(t *testing.T) {
	r := npmtest.Serve(t)
	r.Publish(t, "bad", "1.0.0", `{"dependencies":{"needed":"^1"}}`)
	r.Publish(t, "needed", "1.0.0", "")
	cache := t.TempDir()
	resolve := func() (*Client, string) {
		t.Helper()
		r.Forget()
		c := client(t, r, Config{Cache: cache})
		tree, err := c.Resolve(t.Context(), "bad", "latest")
		require.NoError(t, err)
		return c, tree.lines()
	}
	old := func() { // older than what is believed without asking
		entries, err := os.ReadDir(filepath.Join(cache, metadata))
		require.NoError(t, err)
		require.Len(t, entries, 2)
		for _, e := range entries {
			require.NoError(t, os.Chtimes(filepath.Join(cache, metadata, e.Name()), time.Time{}, time.Now().Add(-time.Hour)))
		}
	}
	read := func(c *Client) (n int) {
		c.packuments.m.Range(func(any, any) bool { n++; return true })
		return n
	}
	c, first := resolve()
	require.Equal(t, 2, read(c))
	c, again := resolve()
	require.Equal(t, first, again)
	require.Zero(t, read(c))
	require.Empty(t, r.Paths())

	old()
	c, again = resolve()
	require.Equal(t, first, again)
	require.Zero(t, read(c))
	require.Len(t, r.Paths(), 2)
	for _, q := range r.Asked() {
		require.NotEmpty(t, q.Header.Get("If-None-Match"))
	}
	_, again = resolve()
	require.Equal(t, first, again)
	require.Empty(t, r.Paths(), "what was asked is fresh again")

	old()
	r.Publish(t, "needed", "1.1.0", "")
	_, again = resolve()
	require.Equal(t, "node_modules/bad bad 1.0.0\nnode_modules/needed needed 1.1.0\n", again)
	require.Len(t, r.Paths(), 2)
}

// What OpenFn publishes lies where npm would put it. A version that needs one that is not
// published can be installed by neither.
func TestAdaptorsLieWhereNPMPutsThem(t *testing.T) {
	if testing.Short() {
		t.Skip("nearly all of its time goes into the network")
	}
	s := settings(t)
	s.moreAuthorities, _ = os.ReadFile(os.Getenv("NODE_EXTRA_CA_CERTS")) // of a machine whose network has its own
	c, err := New(Config{Settings: s, Cache: t.TempDir()})
	require.NoError(t, err)
	defer c.Close()
	var questions []question
	for _, name := range []string{"common", "http", "collections", "fhir", "mssql", "openmrs"} {
		name = "@openfn/language-" + name
		version, err := c.Version(t.Context(), name, "latest")
		if err != nil {
			lacking(t, "this test needs npm's registry: "+err.Error())
		}
		questions = append(questions, question{defaultRegistry, name, version})
	}
	answers, node := askNPM(t, time.Minute, questions)
	c.by.node = node
	for i, q := range questions {
		tree, err := c.Resolve(t.Context(), q.Name, q.Wanted)
		if answers[i].Code == "" {
			require.NoError(t, err, q.Name)
			require.Equal(t, answers[i].lines(), tree.lines(), q.Name)
			continue
		}
		require.Equal(t, "ETARGET", answers[i].Code, "%s: %s", q.Name, answers[i].Message)
		none, ok := errors.AsType[*Error](err)
		require.True(t, ok, err)
		require.Equal(t, NoVersion, none.Kind)
		require.Contains(t, answers[i].Message, none.Package, "of the same package")
	}
}
