package options

import (
	"context"
	"encoding/pem"
	"log/slog"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
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
	require.NoError(t, command.Run(t.Context(), Normalize(append([]string{"worker"}, args...))))
	return flags
}

func read(t *testing.T, env environment, args ...string) Settings {
	t.Helper()
	settings, err := Read(parse(t, args...), env.get)
	require.NoError(t, err)
	return settings
}

func TestReadDefaults(t *testing.T) {
	settings := read(t, environment{"WORKER_SECRET": "s"})
	require.Equal(t, Settings{Worker: phxworker.Config{URL: "ws://localhost:4000/worker", Secret: "s"}}, settings,
		"all else is left to the defaults of the worker")
}

func TestReadEveryOption(t *testing.T) {
	want := Settings{
		Worker: phxworker.Config{
			URL: "wss://lightning.example.org/worker", Secret: "s", PublicKey: "a2V5", Name: "pod-1",
			Groups: "fast_lane:1 manual>*:4", DemandAll: true,
			MinBackoff: 500 * time.Millisecond, MaxBackoff: 20 * time.Second,
			ClaimTimeout: 90 * time.Second, MessageTimeout: 12 * time.Second,
			Limits: phxworker.Limits{RunTimeout: 1500 * time.Millisecond, MemoryMB: 64, PayloadMB: 0.5, LogPayloadMB: 2},
		},
		StateProps: []string{"configuration", "token"},
		Log:        Log{Level: slog.LevelDebug, JSON: true},
	}
	t.Run("by flags", func(t *testing.T) {
		require.Equal(t, want, read(t, environment{"WORKER_NAME": "pod-1", "DEPLOYED_POD_NAME": "other"},
			"--lightning", "wss://lightning.example.org/worker", "--secret", "s", "--lightning-public-key", "a2V5",
			"--workloops", "fast_lane:1 manual>*:4", "--claim-all", "--backoff", "0.5/20",
			"--claim-timeout", "90", "--message-timeout", "12", "--engine", "js", "--mock",
			"--max-run-duration-seconds", "1.5", "--run-memory", "64", "--payload-memory", "0.5", "--log-payload-memory", "2",
			"--state-props-to-remove", "configuration,token", "--log", "debug", "--log-format", "json"))
	})
	t.Run("by variables", func(t *testing.T) {
		require.Equal(t, want, read(t, environment{
			"WORKER_LIGHTNING_SERVICE_URL": "wss://lightning.example.org/worker", "WORKER_SECRET": "s",
			"WORKER_LIGHTNING_PUBLIC_KEY": "a2V5", "DEPLOYED_POD_NAME": "pod-1", "WORKER_WORKLOOPS": "fast_lane:1 manual>*:4",
			"WORKER_CLAIM_ALL": "yes", "WORKER_BACKOFF": "0.5/20", "WORKER_CLAIM_TIMEOUT_SECONDS": "90",
			"WORKER_MESSAGE_TIMEOUT_SECONDS": "12", "WORKER_ENGINE": "js", "WORKER_MAX_RUN_DURATION_SECONDS": "1.5",
			"WORKER_MAX_RUN_MEMORY_MB": "64", "WORKER_MAX_PAYLOAD_MB": "0.5", "WORKER_MAX_LOG_PAYLOAD_MB": "2",
			"WORKER_STATE_PROPS_TO_REMOVE": "configuration,token", "WORKER_LOG_LEVEL": "debug", "WORKER_LOG_FORMAT": "json",
		}))
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
			want := phxworker.Config{URL: "ws://localhost:4000/worker", Secret: "s"}
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
		{"time that overflows", nil, []string{"-t", "1e300"}, `--max-run-duration-seconds "1e300" is not a number of seconds: write one greater than 0`},
		{"memory is not a number", nil, []string{"--run-memory", "NaN"}, `--run-memory "NaN" is not a number of MB: write one greater than 0`},
		{"URL without scheme", nil, []string{"-l", "localhost:4000/worker"}, "--lightning is not a websocket URL: write it like wss://lightning.example.org/worker"},
		{"level", environment{"WORKER_LOG_LEVEL": "loud"}, nil, `WORKER_LOG_LEVEL "loud" is not a level: write debug, info, warn, error or none`},
		{"format", nil, []string{"--log-format", "xml"}, `--log-format "xml" is not known: write text or json`},
		{"engine", nil, []string{"--engine", "openfn"}, `--engine "openfn" is not known: write js`},
		{"CA file without certificate", nil, []string{"--ca-file", empty}, "--ca-file " + empty + " has no certificate in it: give a PEM file with BEGIN CERTIFICATE"},
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
		{"flag", nil, []string{"-p", "3000"}, []Notice{{"option has no effect", "--port", noServer}}},
		{"variable", environment{"WORKER_REPO_DIR": "/adaptors"}, nil, []Notice{{"option has no effect", "WORKER_REPO_DIR", noNode}}},
		{"toggles", environment{"WORKER_BATCH_LOGS": "1"}, []string{"--no-loop"}, []Notice{
			{"option has no effect", "--loop", noServer + ": claims are always made in a loop"},
			{"option has no effect", "WORKER_BATCH_LOGS", noBatches},
		}},
		{"any value will do", environment{"WORKER_PORT": "a lot"}, nil, []Notice{{"option has no effect", "WORKER_PORT", noServer}}},
		{"deprecated", nil, []string{"--socket-timeout", "5"}, []Notice{{"option is deprecated", "--socket-timeout", "it is called --message-timeout now"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, read(t, tt.env, append(tt.args, "-s", "s")...).Notices)
		})
	}
}
