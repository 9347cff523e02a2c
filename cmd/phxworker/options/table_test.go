package options

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// reference is the table of OpenFn's ws-worker: flag with aliases, variables,
// default. Our own departures from it are in the last column.
var reference = []struct {
	name    string // the flag, or what stands for it in a config file
	aliases []string
	env     []string
	def     string
	ours    string // our default, if another
}{
	{name: "lightning", aliases: []string{"l", "lightning-service-url"}, env: []string{"WORKER_LIGHTNING_SERVICE_URL"}, def: "ws://localhost:4000/worker"},
	{name: "port", aliases: []string{"p"}, env: []string{"WORKER_PORT"}, def: "2222"},
	{name: "secret", aliases: []string{"s"}, env: []string{"WORKER_SECRET"}},
	{name: "lightning-public-key", env: []string{"WORKER_LIGHTNING_PUBLIC_KEY"}},
	{name: "capacity", env: []string{"WORKER_CAPACITY"}, def: "5"},
	{name: "workloops", env: []string{"WORKER_WORKLOOPS"}},
	{name: "backoff", env: []string{"WORKER_BACKOFF"}, def: "1/10"},
	{name: "loop", def: "on"},
	{name: "claim-timeout", env: []string{"WORKER_CLAIM_TIMEOUT_SECONDS"}, def: "3600"},
	{name: "message-timeout", env: []string{"WORKER_MESSAGE_TIMEOUT_SECONDS"}, def: "30"},
	{name: "socket-timeout", env: []string{"WORKER_SOCKET_TIMEOUT_SECONDS"}},
	{name: "log", env: []string{"WORKER_LOG_LEVEL"}, def: "debug", ours: "info"},
	{name: "mock", def: "off"},
	{name: "repo-dir", aliases: []string{"d"}, env: []string{"WORKER_REPO_DIR"}},
	{name: "monorepo-dir", aliases: []string{"m"}, env: []string{"OPENFN_ADAPTORS_REPO"}},
	{name: "run-memory", env: []string{"WORKER_MAX_RUN_MEMORY_MB"}, def: "500"},
	{name: "payload-memory", env: []string{"WORKER_MAX_PAYLOAD_MB"}, def: "10"},
	{name: "log-payload-memory", env: []string{"WORKER_MAX_LOG_PAYLOAD_MB"}, def: "1"},
	{name: "max-run-duration-seconds", aliases: []string{"t"}, env: []string{"WORKER_MAX_RUN_DURATION_SECONDS"}, def: "300"},
	{name: "state-props-to-remove", env: []string{"WORKER_STATE_PROPS_TO_REMOVE"}, def: "configuration,response"},
	{name: "batch-logs", env: []string{"WORKER_BATCH_LOGS"}, def: "off"},
	{name: "batch-interval", env: []string{"WORKER_BATCH_INTERVAL"}, def: "10"},
	{name: "batch-limit", env: []string{"WORKER_BATCH_LIMIT"}, def: "50"},
	{name: "collections-url", aliases: []string{"c"}, env: []string{"WORKER_COLLECTIONS_URL"}},
	{name: "collections-version", env: []string{"WORKER_COLLECTIONS_VERSION"}, def: "latest"},
	{name: "state-memory", env: []string{"WORKER_MAX_STATE_MEMORY_MB"}},
	{name: "cgroups", env: []string{"WORKER_ENABLE_CGROUP_ENFORCEMENT"}, def: "off"},
	{name: "cgroup-memory-overhead-mb", env: []string{"CGROUP_MEMORY_OVERHEAD_MB"}, def: "128"},
	{name: "no-stringify-state", env: []string{"WORKER_NO_STRINGIFY_STATE"}, def: "off"},
	{name: "debug", def: "off"},
	{name: "sentry-dsn", aliases: []string{"dsn"}, env: []string{"WORKER_SENTRY_DSN"}},
	{name: "sentry-env", env: []string{"WORKER_SENTRY_ENV"}, def: "dev"},
	{name: "engine-validation-timeout-ms", env: []string{"WORKER_VALIDATION_TIMEOUT_MS"}, def: "5000"},
	{name: "engine-validation-retries", env: []string{"WORKER_VALIDATION_RETRIES"}, def: "3"},
	{name: "profile", env: []string{"WORKER_PROFILE"}, def: "off"},
	{name: "profile-poll-interval-ms", env: []string{"WORKER_PROFILE_POLL_INTERVAL_MS"}, def: "10"},
	{name: "timeout-retry-count", env: []string{"WORKER_TIMEOUT_RETRY_COUNT"}, def: "10"},
	{name: "timeout-retry-delay", env: []string{"WORKER_TIMEOUT_RETRY_DELAY_MS"}, def: "30000"},
	{name: "name", env: []string{"WORKER_NAME", "DEPLOYED_POD_NAME"}},
}

// Guards the promise that a deployment made for ws-worker starts this worker
// with nothing changed.
func TestTableHasEveryOptionOfWsWorker(t *testing.T) {
	byKey := make(map[string]Option)
	for _, o := range Table() {
		require.NotContains(t, byKey, o.Key(), "twice in the table")
		byKey[o.Key()] = o
	}
	for _, want := range reference {
		t.Run(want.name, func(t *testing.T) {
			got, ok := byKey[want.name]
			require.True(t, ok, "the option is not in the table")
			require.Equal(t, want.aliases, got.Aliases)
			require.Equal(t, want.env, got.Env)
			if want.ours != "" {
				want.def = want.ours
			}
			require.Equal(t, want.def, got.Default)
			require.False(t, got.Ours)
			delete(byKey, want.name)
		})
	}
	for key, o := range byKey {
		require.True(t, o.Ours, "%s is neither one of ws-worker's nor marked as ours", key)
	}
}

func TestTableIsConsistent(t *testing.T) {
	names := make(map[string]bool)
	for _, o := range Table() {
		for _, name := range append(append([]string{o.Flag}, o.Aliases...), o.Env...) {
			require.False(t, name != "" && names[name], "%s names two options", name)
			names[name] = true
		}
		require.NotEmpty(t, o.Usage, o.Name())
		require.Equal(t, o.Group == other, o.NoEffect != "", "%s: options without effect, and no others, stand apart", o.Name())
		require.Equal(t, o.Group != other && o.Kind != Toggle, o.Placeholder != "", "%s: what stands for its value", o.Name())
	}
}

// Guards against a row that the help promises and nothing reads.
func TestReadAsksForEveryOptionWithEffect(t *testing.T) {
	values, err := Collect(parse(t), environment{}.get)
	require.NoError(t, err)
	r := newReader(values)
	r.settings()
	for _, o := range Table() {
		require.Equal(t, o.NoEffect == "", r.taken[o.Key()], "%s: read only if it has an effect", o.Name())
		delete(r.taken, o.Key())
	}
	require.Empty(t, r.taken, "read, but not in the table")
}

// Every name that the table has can be typed, toggles in both senses.
func TestFlagsTakeEveryNameOfTheTable(t *testing.T) {
	for _, o := range Table() {
		if o.Flag == "" {
			continue
		}
		for _, name := range append([]string{o.Flag}, o.Aliases...) {
			dashes := "--"
			if len(name) == 1 {
				dashes = "-"
			}
			if o.Kind == Toggle {
				require.True(t, parse(t, dashes+name).Bool(o.Flag))
				require.False(t, parse(t, dashes+"no-"+name).Bool(o.Flag))
				require.True(t, parse(t, dashes+"no-"+name).IsSet(o.Flag))
				continue
			}
			if o.Kind == List {
				require.Equal(t, []string{"x", "y"}, parse(t, dashes+name, "x", "y").StringSlice(o.Flag))
				continue
			}
			require.Equal(t, "x", parse(t, dashes+name, "x").String(o.Flag))
		}
	}
}
