package options

import (
	"context"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"github.com/urfave/cli/v3"

	"github.com/phxworker/phxworker"
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
			URL: "ws://localhost:4000/worker", Secret: "s", Groups: "manual>*:5",
			MinBackoff: time.Second, MaxBackoff: 10 * time.Second,
			ClaimTimeout: time.Hour, MessageTimeout: 30 * time.Second, MaxAttempts: 3,
			Limits: phxworker.Limits{RunTimeout: 300 * time.Second, MemoryMB: 500, PayloadMB: 10, LogPayloadMB: 1},
		},
		Engine: Engine{
			Name: "auto", Reuse: 1, StateProps: []string{"configuration", "response"}, CollectionsVersion: "latest",
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
			Groups: "fast_lane:1 manual>*:4", DemandAll: true, Manual: true,
			MinBackoff: 500 * time.Millisecond, MaxBackoff: 20 * time.Second,
			ClaimTimeout: 90 * time.Second, MessageTimeout: 12 * time.Second,
			Prefetch: true, MaxRuns: 9, IdleTimeout: 3 * time.Minute, MaxAttempts: 5, Extensions: []string{"lease", "cancel"}, RefuseUnsuitable: true,
			Grace: time.Minute, MaxErrors: 8, LogsAtMostOnce: true, Spool: spool,
			Limits:    phxworker.Limits{RunTimeout: 1500 * time.Millisecond, MemoryMB: 64, PayloadMB: 0.5, LogPayloadMB: 2},
			BatchLogs: phxworker.BatchLogs{Interval: 25 * time.Millisecond, Limit: 7},
		},
		AcceptAdaptors: []string{"@openfn/language-common", "@openfn/language-http"},
		Engine: Engine{
			Name: "command", Command: []string{"go", "run", "my engine"}, Reuse: 3, RepoDir: "adaptors", MonorepoDir: monorepo,
			StateProps:     []string{"configuration", "token"},
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
		"WORKER_CLAIM_TIMEOUT_SECONDS": "90", "WORKER_MESSAGE_TIMEOUT_SECONDS": "12", "WORKER_GRACE_SECONDS": "60", "WORKER_PREFETCH": "1", "WORKER_MAX_RUNS": "9", "WORKER_IDLE_TIMEOUT_SECONDS": "180",
		"WORKER_MAX_ATTEMPTS": "5", "WORKER_EXTENSIONS": "lease,cancel", "WORKER_UNSUITABLE": "fail",
		"WORKER_ACCEPT_ADAPTORS": "@openfn/language-common,@openfn/language-http", "WORKER_MAX_ERRORS": "8",
		"WORKER_LOGS": "at-most-once", "WORKER_SPOOL": spool, "WORKER_MAX_RUN_DURATION_SECONDS": "1.5", "WORKER_MAX_RUN_MEMORY_MB": "64",
		"WORKER_MAX_PAYLOAD_MB": "0.5", "WORKER_MAX_LOG_PAYLOAD_MB": "2", "WORKER_BATCH_LOGS": "true", "WORKER_BATCH_INTERVAL": "25",
		"WORKER_BATCH_LIMIT": "7", "WORKER_ENGINE": "go run 'my engine'", "WORKER_ENGINE_REUSE": "3", "WORKER_REPO_DIR": "adaptors",
		"OPENFN_ADAPTORS_REPO": monorepo, "WORKER_STATE_PROPS_TO_REMOVE": "configuration,token",
		"WORKER_COLLECTIONS_URL": "https://lightning.example.org/collections", "WORKER_COLLECTIONS_VERSION": "1.2",
		"WORKER_VALIDATION_TIMEOUT_MS": "700", "WORKER_VALIDATION_RETRIES": "0", "WORKER_HOST": "127.0.0.1", "WORKER_PORT": "3000",
		"WORKER_HTTP_TOKEN": "t", "WORKER_LOG_LEVEL": "debug", "WORKER_LOG_FORMAT": "json",
		"WORKER_SENTRY_DSN": "https://key@sentry.example.org/1", "WORKER_SENTRY_ENV": "production", "WORKER_NAME": "pod-1",
	}
	// Not in words: these say the same as others, and are for tests of their own.
	elsewhere := []string{"ca-file", "capacity", "queues", "socket-timeout", "mock", "config"}
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
		require.Equal(t, want, read(t, environment{"WORKER_NAME": "pod-1", "DEPLOYED_POD_NAME": "other"}, flags...))
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
		{"capacity", nil, []string{"-s", "s", "--capacity", "7"}, func(c *phxworker.Config) { c.Groups = "manual>*:7" }},
		{"queues", nil, []string{"-s", "s", "--queues", "manual,*:4"}, func(c *phxworker.Config) { c.Groups = "manual,*:4" }},
		{"flag workloops over variable capacity", environment{"WORKER_CAPACITY": "5"}, []string{"-s", "s", "--workloops", "a:1"}, func(c *phxworker.Config) { c.Groups = "a:1" }},
		{"flag capacity over variable workloops", environment{"WORKER_WORKLOOPS": "a:1"}, []string{"-s", "s", "--capacity", "2"}, func(c *phxworker.Config) { c.Groups = "manual>*:2" }},
		{"deprecated alias", environment{"WORKER_SOCKET_TIMEOUT_SECONDS": "4"}, []string{"-s", "s"}, func(c *phxworker.Config) { c.MessageTimeout = 4 * time.Second }},
		{"message time-out over deprecated alias", environment{"WORKER_MESSAGE_TIMEOUT_SECONDS": "9"}, []string{"-s", "s", "--socket-timeout", "4"}, func(c *phxworker.Config) { c.MessageTimeout = 9 * time.Second }},
		{"toggle off by variable", environment{"WORKER_SECRET": "s", "WORKER_CLAIM_ALL": "false"}, nil, nil},
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

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	tests := []struct {
		name string
		env  environment
		args []string
		want string
	}{
		{"no secret", environment{"WORKER_SECRET": ""}, nil, "no secret: set --secret or WORKER_SECRET to the secret that the server knows its workers by"},
		{"capacity and workloops", nil, []string{"--capacity", "3", "--workloops", "a:1"}, "--capacity and --workloops exclude each other: keep one of them"},
		{"the same by variables", environment{"WORKER_CAPACITY": "3", "WORKER_QUEUES": "a:1"}, nil, "WORKER_CAPACITY and WORKER_QUEUES exclude each other: keep one of them"},
		{"capacity is a word", nil, []string{"--capacity", "many"}, `--capacity "many" is not a number of runs: write a whole number from 1 up`},
		{"capacity is zero", environment{"WORKER_CAPACITY": "0"}, nil, `WORKER_CAPACITY "0" is not a number of runs: write a whole number from 1 up`},
		{"back-off without maximum", nil, []string{"--backoff", "5"}, `--backoff "5" is not a back-off: write the shortest and the longest pause in seconds, such as 1/10`},
		{"back-off upside down", environment{"WORKER_BACKOFF": "10/1"}, nil, `WORKER_BACKOFF "10/1" is not a back-off: write the shortest and the longest pause in seconds, such as 1/10`},
		{"back-off of nothing", nil, []string{"--backoff", "0/1"}, `--backoff "0/1" is not a back-off: write the shortest and the longest pause in seconds, such as 1/10`},
		{"negative time", nil, []string{"--claim-timeout", "-1"}, `--claim-timeout "-1" is not a number of seconds: write one greater than 0`},
		{"time that overflows", nil, []string{"-t", "1e300"}, `--max-run-duration-seconds "1e300" is too large: write 1000000000 seconds at most`},
		{"time that is no number of ours", nil, []string{"-t", "1e999"}, `--max-run-duration-seconds "1e999" is too large: write 1000000000 seconds at most`},
		{"back-off that is too large", nil, []string{"--backoff", "1/1e10"}, `--backoff "1/1e10" is too large: write pauses of 1000000000 seconds at most`},
		{"capacity is too large", nil, []string{"--capacity", "99999999999999999999"}, `--capacity "99999999999999999999" is too large: write 1000000 at most`},
		{"number is too large", nil, []string{"--max-runs", "99999999999999999999"}, `--max-runs "99999999999999999999" is too large: write 1000000000 at most`},
		{"adaptors by other names", environment{"WORKER_ACCEPT_ADAPTORS": "@openfn/language-http,foo"}, nil, `WORKER_ACCEPT_ADAPTORS: "foo" is no adaptor: their names begin with @openfn/, as in @openfn/language-http`},
		{"memory is not a number", nil, []string{"--run-memory", "NaN"}, `--run-memory "NaN" is not a number of MB: write one greater than 0`},
		{"URL without scheme", nil, []string{"-l", "localhost:4000/worker"}, "--lightning is not a websocket URL: write it like wss://lightning.example.org/worker"},
		{"level", environment{"WORKER_LOG_LEVEL": "loud"}, nil, `WORKER_LOG_LEVEL "loud" is not a level: write debug, info, warn, error or none`},
		{"format", nil, []string{"--log-format", "xml"}, `--log-format "xml" is not known: write auto or text or json`},
		{"engine and mock", nil, []string{"--engine", "openfn", "--mock"}, `--engine "openfn" and --mock exclude each other: --mock is --engine js`},
		{"collections", nil, []string{"-c", "lightning"}, "--collections-url is not a URL: write it like https://lightning.example.org/collections"},
		{"password", nil, []string{"-l", "wss://me:secret@lightning.test/worker"}, "--lightning has a user name or a password in it, which the server does not want: workers prove themselves with --secret"},
		{"engine", nil, []string{"--engine", "opnfn"}, `--engine "opnfn" is not known: write auto, js, openfn, or a command whose program is there`},
		{"CA file without certificate", nil, []string{"--ca-file", empty}, "--ca-file " + empty + " has no certificate in it: give a PEM file with BEGIN CERTIFICATE"},
		{"port", nil, []string{"-p", "65536"}, `--port "65536" is not a port: write a number from 0 to 65535, or off`},
		{"host with a port", environment{"WORKER_HOST": "localhost:80"}, nil, `WORKER_HOST "localhost:80" is not an address to listen at: write an IP address or a name, with no port`},
		{"nothing to claim with", nil, []string{"--no-loop", "--port", "off"}, "--no-loop and --port exclude each other: nothing would be claimed, for POST /claim is not served"},
		{"public key", environment{"WORKER_LIGHTNING_PUBLIC_KEY": "?"}, nil, "WORKER_LIGHTNING_PUBLIC_KEY: public key for run tokens: it is neither PEM nor base64: illegal base64 data at input byte 0; give the RSA public key as PEM, or that PEM in base64 (Lightning's WORKER_LIGHTNING_PUBLIC_KEY)"},
		{"groups", nil, []string{"--queues", "manual"}, `--queues: slot group "manual": the number of slots is missing; write it after a colon, with no space before it: "manual:1"`},
		{"DSN", environment{"WORKER_SENTRY_DSN": "https://hidden-key@sentry.test"}, nil, "WORKER_SENTRY_DSN is not a Sentry DSN: copy it from the project's settings, it is like https://KEY@sentry.example.org/1"},
		{"retries", nil, []string{"--engine-validation-retries", "-1"}, `--engine-validation-retries "-1" is not a number: write a whole number from 0 up`},
		{"batch of none", nil, []string{"--batch-limit", "0"}, `--batch-limit "0" is not a number: write a whole number from 1 up`},
		{"CA file is missing", environment{"WORKER_CA_FILE": dir + "/no.pem"}, nil, "WORKER_CA_FILE cannot be read: open " + dir + "/no.pem: no such file or directory"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := environment{"WORKER_SECRET": "s"}
			maps.Copy(env, tt.env)
			_, err := Read(parse(t, tt.args...), env.get)
			var wrong *Error
			require.ErrorAs(t, err, &wrong)
			require.Equal(t, tt.want, err.Error())
		})
	}
}

func TestReadTrustsTheFileBesideTheSystem(t *testing.T) {
	server := httptest.NewTLSServer(nil)
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	require.NoError(t, os.WriteFile(file, certificate, 0o600))

	config := read(t, environment{"WORKER_SECRET": "s"}, "--ca-file", file).Worker.TLS
	require.NotNil(t, config)
	_, err := server.Certificate().Verify(verifyOptions(config))
	require.NoError(t, err)
}

func TestNotices(t *testing.T) {
	tests := []struct {
		name string
		env  environment
		args []string
		want []Notice
	}{
		{"nothing set", nil, nil, nil},
		{"what happens anyway", environment{"WORKER_PROFILE": "false"}, []string{"--loop", "--no-batch-logs"}, nil},
		{"what is so by default", environment{"WORKER_PROFILE_POLL_INTERVAL_MS": "10", "WORKER_TIMEOUT_RETRY_COUNT": "10", "WORKER_VALIDATION_RETRIES": "3"}, []string{"--batch-limit", "50"}, nil},
		{"slots said in two places", environment{"WORKER_CAPACITY": "3"}, []string{"--workloops", "*:1"}, []Notice{{unused, "WORKER_CAPACITY", "--workloops says what slots there are"}}},
		{"flag", nil, []string{"--profile"}, []Notice{{noEffect, "--profile", noProfile}}},
		{"variable", environment{"WORKER_TIMEOUT_RETRY_DELAY_MS": "5"}, nil, []Notice{{noEffect, "WORKER_TIMEOUT_RETRY_DELAY_MS", noRetries}}},
		{"any value will do", environment{"WORKER_PROFILE_POLL_INTERVAL_MS": "a lot"}, nil, []Notice{{noEffect, "WORKER_PROFILE_POLL_INTERVAL_MS", noProfile}}},
		{"batches that are off", environment{"WORKER_BATCH_LIMIT": "5"}, []string{"--batch-interval", "7"}, []Notice{
			{noEffect, "--batch-interval", notBatched}, {noEffect, "WORKER_BATCH_LIMIT", notBatched},
		}},
		{"batches that are on", environment{"WORKER_BATCH_LIMIT": "5"}, []string{"--batch-logs"}, nil},
		{"validation of an engine that has none", environment{"WORKER_VALIDATION_RETRIES": "5"}, nil, []Notice{{noEffect, "WORKER_VALIDATION_RETRIES", notChecked}}},
		{"validation of a command", environment{"WORKER_VALIDATION_RETRIES": "5"}, []string{"--engine", "go"}, nil},
		{"nothing is served", environment{"WORKER_PORT": "off"}, []string{"--http-token", "t", "--host", "::1"}, []Notice{
			{noEffect, "--host", notServed}, {noEffect, "--http-token", notServed},
		}},
		{"less grace than a run may take", environment{"WORKER_GRACE_SECONDS": "60"}, nil, []Notice{
			{doubtful, "WORKER_GRACE_SECONDS", "a run may take 5m0s, and 1m0s after a signal those under way are cancelled"},
		}},
		{"enough grace", nil, []string{"--grace", "60", "-t", "60"}, nil},
		{"deprecated", nil, []string{"--socket-timeout", "5"}, []Notice{{deprecated, "--socket-timeout", "it is called --message-timeout now"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, read(t, tt.env, append(tt.args, "-s", "s")...).Notices)
		})
	}
}
