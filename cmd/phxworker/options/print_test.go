package options

import (
	"maps"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func printed(t *testing.T, env environment, args ...string) string {
	t.Helper()
	values, err := Collect(parse(t, args...), env.get)
	require.NoError(t, err)
	var b strings.Builder
	require.NoError(t, values.Print(&b))
	return b.String()
}

// home is short: comments are aligned behind the longest value, and one is a folder in it.
func home(t *testing.T) {
	t.Helper()
	t.Setenv("HOME", "/home")
	t.Setenv("XDG_CACHE_HOME", "")
}

func TestPrintTellsWhereValuesComeFrom(t *testing.T) {
	home(t)
	path := write(t, "capacity: 7\nmax-run-duration-seconds: 60\n")
	text := printed(t, environment{"WORKER_SECRET": "hidden-secret", "WORKER_BACKOFF": "2/20", "WORKER_SENTRY_DSN": "https://hidden-key@sentry.test/1"},
		"--config", path, "-l", "mock", "--no-loop", "--http-token=hidden-token", "--collections-url", "https://c.test/?token=hidden-query", "--profile")
	text = strings.ReplaceAll(text, path, "FILE")
	require.NotContains(t, text, "hidden")
	for _, line := range []string{
		"# Server",
		"lightning: mock        # from --lightning",
		"# secret: set, from WORKER_SECRET",
		"# lightning-public-key: not set",
		"# config: FILE, from --config",
		"# message-timeout: 30  # default",
		"",
		"# Slots and claims",
		"capacity: 7            # from FILE:1",
		"# workloops: not set",
		"backoff: 2/20          # from WORKER_BACKOFF",
		"loop: false            # from --no-loop",
		"max-run-duration-seconds: 60                        # from FILE:2",
		"# state-props-to-remove: [configuration, response]  # default",
		"# collections-url: set, from --collections-url",
		"# http-token: set, from --http-token",
		"# sentry-dsn: set, from WORKER_SENTRY_DSN",
		"profile: true  # from --profile",
	} {
		require.Contains(t, strings.Split(text, "\n"), line)
	}
	require.NotContains(t, text, "socket-timeout")
	require.NotContains(t, text, "timeout-retry-count", "without effect and not set")
	for line := range strings.Lines(text) {
		require.Equal(t, strings.TrimRight(line, " \n")+"\n", line)
	}
}

func TestPrintLeavesOutWhatGivesWay(t *testing.T) {
	text := printed(t, environment{"WORKER_CAPACITY": "7", "WORKER_SOCKET_TIMEOUT_SECONDS": "4"}, "--workloops", "a:1 *:2", "--mock")
	require.Contains(t, text, "# capacity: not used, for --workloops is set\n")
	require.Regexp(t, `(?m)^workloops: a:1 \*:2 +# from --workloops$`, text)
	require.Regexp(t, `(?m)^message-timeout: 4 +# from WORKER_SOCKET_TIMEOUT_SECONDS$`, text)
	require.Regexp(t, `(?m)^engine: js +# from --mock$`, text)
}

// Guards against a file of options that nobody set, each with a warning that it
// has no effect.
func TestPrintSetsOnlyWhatWasSet(t *testing.T) {
	home(t)
	text := printed(t, environment{"WORKER_NAME": "pod-1"}, "--capacity", "5")
	var set []string
	for line := range strings.Lines(text) {
		if line != "\n" && line[0] != '#' {
			set = append(set, strings.Fields(line)[0])
		}
	}
	require.Equal(t, []string{"name:", "capacity:"}, set)
	require.Regexp(t, `(?m)^# repo-dir: /\S*/phxworker/adaptors +# default$`, text)
}

// What is printed, given as the config file, comes to the same settings.
func TestPrintIsAConfigFile(t *testing.T) {
	secrets := environment{"WORKER_SECRET": "s", "WORKER_HTTP_TOKEN": "t", "WORKER_SENTRY_DSN": "https://k@sentry.test/1"}
	tests := []struct {
		name string
		env  environment
		args []string
	}{
		{"defaults", nil, nil},
		{"mock", nil, []string{"-l", "mock", "--mock", "--capacity", "2"}},
		{"groups", environment{"WORKER_CAPACITY": "3"}, []string{"--workloops", "fast_lane:1 manual>*:4"}},
		{"older groups", environment{"WORKER_QUEUES": "manual,*:4"}, nil},
		{"deprecated", environment{"WORKER_SOCKET_TIMEOUT_SECONDS": "4"}, nil},
		{"words that YAML reads as something else", environment{"WORKER_NAME": "null", "WORKER_COLLECTIONS_VERSION": "1.10"}, []string{"--port", "off", "--sentry-env", "yes"}},
		{"signs", environment{"WORKER_NAME": `a: "b" #c`, "WORKER_REPO_DIR": "*x, [y]\n&z"}, nil},
		{"lists", nil, []string{"--state-props-to-remove", "a", "true", "3", strings.Repeat("long", 50)}},
		{"what YAML has other uses for", nil, []string{"--egress", "!*.evil.example,*.clinic.example,10.1.0.0/16,fd00::/8,any"}},
		{"long", environment{"WORKER_WORKLOOPS": strings.Repeat("manual>*:1 ", 50)}, nil},
		{"command", nil, []string{"--engine", "go run 'my engine'", "--engine-validation-retries", "0", "--engine-validation-timeout-ms", "0.5"}},
		{"toggles", nil, []string{"--no-loop", "--claim-all", "--batch-logs", "--batch-limit", "5", "--profile"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := environment{}
			for _, set := range []environment{secrets, tt.env} {
				maps.Copy(env, set)
			}
			text := printed(t, env, tt.args...)
			again := read(t, secrets, "--config", write(t, text))
			want := read(t, env, tt.args...)
			var doubts []string
			for _, notice := range want.Notices {
				doubts = append(doubts, notice.Message+notice.Reason)
			}
			for _, notice := range again.Notices {
				require.Contains(t, doubts, notice.Message+notice.Reason, "the file is about what was set, not about defaults")
			}
			want.Notices, again.Notices = nil, nil // they name other places
			require.Equal(t, want, again, text)
		})
	}
}
