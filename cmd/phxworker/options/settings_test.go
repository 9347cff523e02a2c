package options

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"log/slog"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/runner/egress"
	"github.com/phxworker/phxworker/slots"
)

type environment map[string]string

func (e environment) get(name string) string { return e[name] }

// parse puts the arguments through the real parser.
func parse(t *testing.T, args ...string) (flags Parsed) {
	t.Helper()
	command := &cli.Command{
		Name: "worker", Flags: Flags(),
		Action: func(_ context.Context, cmd *cli.Command) error {
			require.Empty(t, cmd.Args().Slice())
			flags = cmd
			return nil
		},
	}
	args, err := Normalize(append([]string{"worker"}, args...))
	require.NoError(t, err)
	require.NoError(t, command.Run(t.Context(), args))
	return flags
}

func read(t *testing.T, env environment, args ...string) Settings {
	t.Helper()
	settings, err := Read(parse(t, args...), env.get)
	require.NoError(t, err)
	return settings
}

// defaults returns the settings of a worker that was told a secret and no more.
func defaults() Settings {
	return Settings{
		Worker: phxworker.Config{
			URL: "ws://localhost:4000/worker", Secret: "s", Groups: slots.MustParse("manual>*:5"),
			Claim: phxworker.Claim{MinBackoff: time.Second, MaxBackoff: 10 * time.Second, Timeout: time.Hour}, Delivery: phxworker.Delivery{MessageTimeout: 30 * time.Second}, MaxAttempts: 3, Transport: phxworker.Transport{ReadLimit: 64 << 20},
			Limits: phxworker.Limits{RunTimeout: 300 * time.Second, MemoryMB: 500, PayloadMB: 10, LogPayloadMB: 1},
		},
		Engine: Engine{
			Name: "auto", Reuse: 1, StateProps: []string{"configuration", "response"}, CgroupOverheadMB: 128, CollectionsVersion: "latest", CompileMemory: 64 << 20, EmbeddedInput: 1 << 20,
			Egress: egress.MustParse("public,private"), EgressBytes: 1 << 30,
			CheckTimeout: 5 * time.Second, CheckRetries: 3,
		},
		HTTP:   HTTP{Port: "2222"},
		Log:    Log{Level: slog.LevelInfo, Format: "auto"},
		Sentry: Sentry{Environment: "dev"},
	}
}

func TestReadDefaults(t *testing.T) {
	require.Equal(t, defaults(), read(t, environment{"WORKER_SECRET": "s"}))
}

// key is the public key of a server, as WORKER_LIGHTNING_PUBLIC_KEY takes it.
func key(t *testing.T) string {
	t.Helper()
	private, err := rsa.GenerateKey(rand.Reader, 2048)
	require.NoError(t, err)
	public, err := x509.MarshalPKIXPublicKey(&private.PublicKey)
	require.NoError(t, err)
	return base64.StdEncoding.EncodeToString(pem.EncodeToMemory(&pem.Block{Type: "PUBLIC KEY", Bytes: public}))
}

func TestReadEveryOption(t *testing.T) {
	public := key(t)
	spool, monorepo := t.TempDir(), t.TempDir()
	want := Settings{
		Worker: phxworker.Config{
			URL: "wss://lightning.example.org/worker", Secret: "s", PublicKey: public, Name: "pod-1",
			Groups: slots.MustParse("fast_lane:1 manual>*:4"), Claim: phxworker.Claim{DemandAll: true, Manual: true, MinBackoff: 500 * time.Millisecond, MaxBackoff: 20 * time.Second, Timeout: 90 * time.Second, Prefetch: true}, Delivery: phxworker.Delivery{MessageTimeout: 12 * time.Second, LogsAtMostOnce: true, NativeDataclips: true, Spool: spool, BatchLogs: phxworker.BatchLogs{Interval: 25 * time.Millisecond, Limit: 7}}, Transport: phxworker.Transport{ReadLimit: 3 << 19}, MaxRuns: 9, IdleTimeout: 3 * time.Minute, MaxAttempts: 5, Extensions: []string{"attempt", "release"}, Hooks: phxworker.Hooks{RefuseUnsuitable: true},
			Grace: time.Minute, MaxErrors: 8,
			Limits: phxworker.Limits{RunTimeout: 1500 * time.Millisecond, MemoryMB: 64, StateMB: 20, PayloadMB: 0.5, LogPayloadMB: 2},
		},
		AcceptAdaptors: []string{"@openfn/language-common", "@openfn/language-http"},
		Engine: Engine{
			Name: "command", Command: []string{"go", "run", "my engine"}, Reuse: 3, RepoDir: "adaptors", MonorepoDir: monorepo,
			StateProps:    []string{"configuration", "token"},
			CompileMemory: 3 << 19, EmbeddedInput: 1 << 19,
			Egress: egress.MustParse("public,private"), EgressBytes: 1 << 30,
			Cgroups: true, CgroupOverheadMB: 256,
			CollectionsURL: "https://lightning.example.org/collections", CollectionsVersion: "1.2",
			CheckTimeout: 700 * time.Millisecond, CheckRetries: 0,
		},
		HTTP:   HTTP{Host: "127.0.0.1", Port: "3000", Token: "t"},
		Log:    Log{Level: slog.LevelDebug, Format: "json"},
		Sentry: Sentry{DSN: "https://key@sentry.example.org/1", Environment: "production"},
	}
	words := map[string]string{ // by variable, or else by flag
		"WORKER_LIGHTNING_SERVICE_URL": "wss://lightning.example.org/worker", "WORKER_SECRET": "s", "WORKER_LIGHTNING_PUBLIC_KEY": public,
		"WORKER_WORKLOOPS": "fast_lane:1 manual>*:4", "WORKER_CLAIM_ALL": "true", "loop": "false", "WORKER_BACKOFF": "0.5/20",
		"WORKER_CLAIM_TIMEOUT_SECONDS": "90", "WORKER_MESSAGE_TIMEOUT_SECONDS": "12", "WORKER_READ_LIMIT_MB": "1.5", "WORKER_GRACE_SECONDS": "60", "WORKER_PREFETCH": "1", "WORKER_MAX_RUNS": "9", "WORKER_IDLE_TIMEOUT_SECONDS": "180",
		"WORKER_MAX_ATTEMPTS": "5", "WORKER_EXTENSIONS": "attempt,release", "WORKER_UNSUITABLE": "fail",
		"WORKER_ACCEPT_ADAPTORS": "@openfn/language-common,@openfn/language-http", "WORKER_MAX_ERRORS": "8",
		"WORKER_LOGS": "at-most-once", "WORKER_SPOOL": spool, "WORKER_MAX_RUN_DURATION_SECONDS": "1.5", "WORKER_MAX_RUN_MEMORY_MB": "64",
		"WORKER_ENABLE_CGROUP_ENFORCEMENT": "true", "CGROUP_MEMORY_OVERHEAD_MB": "256", "WORKER_MAX_STATE_MEMORY_MB": "20", "WORKER_NO_STRINGIFY_STATE": "true",
		"WORKER_MAX_PAYLOAD_MB": "0.5", "WORKER_MAX_LOG_PAYLOAD_MB": "2", "WORKER_BATCH_LOGS": "true", "WORKER_BATCH_INTERVAL": "25",
		"WORKER_BATCH_LIMIT": "7", "WORKER_ENGINE": "go run 'my engine'", "WORKER_ENGINE_REUSE": "3", "WORKER_REPO_DIR": "adaptors",
		"OPENFN_ADAPTORS_REPO": monorepo, "WORKER_COMPILE_MEMORY_MB": "1.5", "WORKER_EMBEDDED_INPUT_MB": "0.5", "WORKER_STATE_PROPS_TO_REMOVE": "configuration,token",
		"WORKER_COLLECTIONS_URL": "https://lightning.example.org/collections", "WORKER_COLLECTIONS_VERSION": "1.2",
		"WORKER_VALIDATION_TIMEOUT_MS": "700", "WORKER_VALIDATION_RETRIES": "0", "WORKER_HOST": "127.0.0.1", "WORKER_PORT": "3000",
		"WORKER_HTTP_TOKEN": "t", "WORKER_LOG_LEVEL": "debug", "WORKER_LOG_FORMAT": "json",
		"WORKER_SENTRY_DSN": "https://key@sentry.example.org/1", "WORKER_SENTRY_ENV": "production", "WORKER_NAME": "pod-1",
	}
	// Not in words: these say the same as others, or hold for another engine, and are for tests of their own.
	elsewhere := []string{"secret-file", "http-token-file", "ca-file", "capacity", "queues", "socket-timeout", "mock", "config", "require-fences", "egress", "egress-limit"}
	env, flags, onlyFlags, inFile := environment{}, []string{}, []string{}, ""
	for _, o := range Table() {
		if o.NoEffect != "" || slices.Contains(elsewhere, o.Key()) {
			continue
		}
		word, ok := words[o.Flag]
		if len(o.Env) > 0 {
			word, ok = words[o.Env[0]]
			env[o.Env[0]] = word
		}
		require.True(t, ok, "%s is under no test", o.Name())
		flag := "--" + o.Flag + "=" + word
		if o.Kind == Toggle && word == "false" {
			flag = "--no-" + o.Flag
		}
		switch {
		case o.Flag == "":
		case len(o.Env) == 0:
			onlyFlags = append(onlyFlags, flag)
			fallthrough
		default:
			flags = append(flags, flag)
		}
		inFile += o.Key() + ": " + o.yaml(word) + "\n"
	}
	t.Run("by flags", func(t *testing.T) {
		got := read(t, environment{"WORKER_NAME": "pod-1", "DEPLOYED_POD_NAME": "other", "CGROUP_MEMORY_OVERHEAD_MB": "256"}, flags...)
		for _, notice := range got.Notices {
			require.Equal(t, onShow, notice.Message)
		}
		got.Notices = nil
		require.Equal(t, want, got)
	})
	t.Run("by variables", func(t *testing.T) { require.Equal(t, want, read(t, env, onlyFlags...)) })
	t.Run("by a file", func(t *testing.T) {
		require.Equal(t, want, read(t, nil, "--config", write(t, inFile)))
	})
}

func TestReadPrecedence(t *testing.T) {
	tests := []struct {
		name string
		env  environment
		args []string
		want func(*phxworker.Config)
	}{
		{"short alias", nil, []string{"-l", "mock", "-t", "7"}, func(c *phxworker.Config) {
			c.URL, c.Secret, c.Limits.RunTimeout = mockURL, mockSecret, 7*time.Second
		}},
		{"long alias", nil, []string{"--lightning-service-url", "mock"}, func(c *phxworker.Config) { c.URL, c.Secret = mockURL, mockSecret }},
		{"mock by variable, with a secret", environment{"WORKER_LIGHTNING_SERVICE_URL": "mock", "WORKER_SECRET": "s"}, nil, func(c *phxworker.Config) { c.URL = mockURL }},
		{"flag over variable", environment{"WORKER_SECRET": "env"}, []string{"-s", "s"}, nil},
		{"empty variable is none", environment{"WORKER_SECRET": "s", "WORKER_BACKOFF": "", "WORKER_CAPACITY": ""}, nil, nil},
		{"empty flag is none", environment{"WORKER_SECRET": "s"}, []string{"--secret", ""}, nil},
		{"capacity", nil, []string{"-s", "s", "--capacity", "7"}, func(c *phxworker.Config) { c.Groups = slots.MustParse("manual>*:7") }},
		{"queues", nil, []string{"-s", "s", "--queues", "manual,*:4"}, func(c *phxworker.Config) { c.Groups = slots.MustParse("manual,*:4") }},
		{"flag workloops over variable capacity", environment{"WORKER_CAPACITY": "5"}, []string{"-s", "s", "--workloops", "a:1"}, func(c *phxworker.Config) { c.Groups = slots.MustParse("a:1") }},
		{"flag capacity over variable workloops", environment{"WORKER_WORKLOOPS": "a:1"}, []string{"-s", "s", "--capacity", "2"}, func(c *phxworker.Config) { c.Groups = slots.MustParse("manual>*:2") }},
		{"deprecated alias", environment{"WORKER_SOCKET_TIMEOUT_SECONDS": "4"}, []string{"-s", "s"}, func(c *phxworker.Config) { c.Delivery.MessageTimeout = 4 * time.Second }},
		{"message time-out over deprecated alias", environment{"WORKER_MESSAGE_TIMEOUT_SECONDS": "9"}, []string{"-s", "s", "--socket-timeout", "4"}, func(c *phxworker.Config) { c.Delivery.MessageTimeout = 9 * time.Second }},
		{"toggle off by variable", environment{"WORKER_SECRET": "s", "WORKER_CLAIM_ALL": "false"}, nil, nil},
		{"toggle by another word", environment{"WORKER_SECRET": "s", "WORKER_CLAIM_ALL": "Yes"}, nil, func(c *phxworker.Config) { c.Claim.DemandAll = true }},
		{"toggle off by flag", environment{"WORKER_SECRET": "s", "WORKER_CLAIM_ALL": "true"}, []string{"--no-claim-all"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := defaults().Worker
			if tt.want != nil {
				tt.want(&want)
			}
			require.Equal(t, want, read(t, tt.env, tt.args...).Worker)
		})
	}
}

// Apart from the others, for a command has no fences.
func TestReadRequireFences(t *testing.T) {
	for name, settings := range map[string]Settings{
		"flag":     read(t, environment{}, "-l", "mock", "--require-fences"),
		"variable": read(t, environment{"WORKER_REQUIRE_FENCES": "true"}, "-l", "mock"),
		"file":     read(t, environment{}, "-l", "mock", "--config", write(t, "require-fences: on\n")),
	} {
		require.True(t, settings.Engine.RequireFences, name)
	}
}

// As in ws-worker: 0 withholds what would be sent, is no limit of a state, and stands for a default elsewhere.
func TestLimitsOfNothing(t *testing.T) {
	want := phxworker.Limits{RunTimeout: 10 * time.Minute, MemoryMB: 500, StateMB: -1, PayloadMB: -1, LogPayloadMB: -1}
	flags := []string{"--payload-memory", "0", "--log-payload-memory=0.0", "--state-memory", "0", "--run-memory", "0", "-t", "0"}
	require.Equal(t, want, read(t, environment{"WORKER_SECRET": "s"}, flags...).Worker.Limits)
}

func TestReadEgress(t *testing.T) {
	read := func(args ...string) Settings { return read(t, environment{"WORKER_SECRET": "s"}, args...) }
	s := read("--engine", "js", "--egress", "public,!*.evil.example,10.1.0.0/16", "--egress-limit", "0")
	require.Equal(t, egress.MustParse("public,!*.evil.example,10.1.0.0/16"), s.Engine.Egress)
	require.Negative(t, s.Engine.EgressBytes)
	require.Empty(t, s.Notices)
	require.Empty(t, read("--engine", "auto").Notices, "nobody was promised anything")
	require.Empty(t, read("--engine", "auto", "--egress", "any").Notices, "nothing is refused")
	for _, engine := range []string{"auto", "openfn", "go run x"} {
		s := read("--engine", engine, "--egress", "public,private")
		require.Len(t, s.Notices, 1)
		require.Equal(t, "option does not hold for all runs", s.Notices[0].Message)
		require.Equal(t, "--egress", s.Notices[0].Option)
		require.Contains(t, s.Notices[0].Reason, "connect")
	}
}

// Guards against a class that is misspelt, and so taken for a host, without a word.
func TestAHostThatIsNearlyAClassIsDoubtful(t *testing.T) {
	args := []string{"--engine", "js", "--egress", "public,lopback,!metdata,node,pubic.example,mirror"}
	want := []Notice{
		{doubtful, "--egress", `"lopback" is taken for the name of a host: did you mean the class "loopback"?`},
		{doubtful, "--egress", `"metdata" is taken for the name of a host: did you mean the class "metadata"?`},
	}
	require.Equal(t, want, read(t, environment{"WORKER_SECRET": "s"}, args...).Notices)
	values, err := Collect(parse(t, args...), environment{}.get)
	require.NoError(t, err)
	how, err := values.Execution()
	require.NoError(t, err)
	require.Equal(t, want, how.Notices)
}

// Guards against a job that is tried in Node, and connects where --egress says that it may not, without a word.
func TestExecutionTellsWhatEgressDoesNotHold(t *testing.T) {
	values, err := Collect(parse(t, "--engine", "openfn", "--egress", "none"), environment{}.get)
	require.NoError(t, err)
	how, err := values.Execution()
	require.NoError(t, err)
	require.Len(t, how.Notices, 1)
	require.Equal(t, []string{partly, "--egress"}, []string{how.Notices[0].Message, how.Notices[0].Option})
}
