package options

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// write makes a config file of the text, which only its owner can read.
func write(t *testing.T, text string) (path string) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "phxworker.yaml")
	require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func TestFile(t *testing.T) {
	tests := []struct {
		name, text string
		env        environment
		args       []string
		want       func(*Settings)
	}{
		{"empty", "", nil, nil, nil},
		{"comments only", "# nothing\n---\n", nil, nil, nil},
		{"numbers as they are written", "collections-version: 1.10\nname: 007\n", nil, nil, func(s *Settings) { s.Engine.CollectionsVersion, s.Worker.Name = "1.10", "007" }},
		{"alias of an option", "lightning-service-url: ws://a.test/worker", nil, nil, func(s *Settings) { s.Worker.URL = "ws://a.test/worker" }},
		{"list", "state-props-to-remove: [a, b]", nil, nil, func(s *Settings) { s.Engine.StateProps = []string{"a", "b"} }},
		{"list as text", "state-props-to-remove: a,b", nil, nil, func(s *Settings) { s.Engine.StateProps = []string{"a", "b"} }},
		{"toggles", "claim-all: yes\nloop: off", nil, nil, func(s *Settings) { s.Worker.Claim.DemandAll, s.Worker.Claim.Manual = true, true }},
		{"toggles by number", "claim-all: 1\nloop: 0", nil, nil, func(s *Settings) { s.Worker.Claim.DemandAll, s.Worker.Claim.Manual = true, true }},
		{"toggle that is nothing", "claim-all: ''\nloop:", nil, nil, nil},
		{"port off", "port: off", nil, nil, func(s *Settings) { s.HTTP.Port = "off" }},
		{"nothing is none", "capacity:\nlog: ''", nil, nil, nil},
		{"anchor", "host: &h 127.0.0.1\nname: *h", nil, nil, func(s *Settings) { s.HTTP.Host, s.Worker.Name = "127.0.0.1", "127.0.0.1" }},
		{"variable over file", "log: debug", environment{"WORKER_LOG_LEVEL": "info"}, nil, nil},
		{"flag over file", "log-format: json", nil, []string{"--log-format", "auto"}, nil},
		{"toggle by flag over file", "claim-all: true", nil, []string{"--no-claim-all"}, nil},
		{"flag over what excludes it in the file", "workloops: a:1", nil, []string{"--capacity", "5"}, func(s *Settings) {
			s.Notices = []Notice{{unused, "FILE:1: workloops", "--capacity says what slots there are"}}
		}},
		{"variable over what excludes it in the file", "capacity: 7", environment{"WORKER_WORKLOOPS": "manual>*:5"}, nil, func(s *Settings) {
			s.Notices = []Notice{{unused, "FILE:1: capacity", "WORKER_WORKLOOPS says what slots there are"}}
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			want := defaults()
			if tt.want != nil {
				tt.want(&want)
			}
			path := write(t, tt.text)
			env := environment{"WORKER_CONFIG": path, "WORKER_SECRET": "s"}
			maps.Copy(env, tt.env)
			got := read(t, env, tt.args...)
			for i := range got.Notices {
				got.Notices[i].Option = strings.ReplaceAll(got.Notices[i].Option, path, "FILE")
			}
			require.Equal(t, want, got)
		})
	}
}

func TestFileRefuses(t *testing.T) {
	tests := []struct{ name, text, want string }{
		{"mistyped", "# mine\nlog: info\ncapcity: 5", `:3: unknown option "capcity": did you mean "capacity"?`},
		{"like none", "frobnicate: 5", `:1: unknown option "frobnicate"`},
		{"one letter", "l: mock", `:1: unknown option "l"`},
		{"its own name", "config: other.yaml", `:1: "config" names this file and does not belong in it: take it out`},
		{"twice", "capacity: 5\nlog: info\ncapacity: 6", `:3: "capacity" is set in line 1 already: keep one of them`},
		{"twice by an alias", "lightning-service-url: a\nlightning: b", `:2: "lightning" is set in line 1 already: keep one of them`},
		{"list for a text", "log: info\ncapacity: [1, 2]", `:2: "capacity" takes one value and not a list`},
		{"mapping for a text", "log:\n  level: info", `:2: "log" takes one value and not options of its own`},
		{"mapping for a list", "state-props-to-remove:\n  a: b", `:2: "state-props-to-remove" is not a list: write a list such as [a, b]`},
		{"list in a list", "state-props-to-remove: [[a]]", `:1: "state-props-to-remove" has something in its list that is not a text: write a list such as [a, b]`},
		{"boolean for a text", "secret: true", `:1: "secret" takes a text or a number: write "true" in quotes if it is meant`},
		{"text for a boolean", "loop: sometimes", `:1: "loop" is on or off, and "sometimes" is neither: write true, false, yes, no, on, off, 1 or 0`},
		{"value that is no good", "secret: s\ncapacity: many", `:2: capacity "many" is not a number of runs: write a whole number from 1 up`},
		{"value that is too large", "secret: s\ncapacity: 2000000", `:2: capacity "2000000" is too large: write 1000000 at most`},
		{"what excludes another", "secret: s\ncapacity: 5\nworkloops: a:1", `:2: capacity and FILE:3: workloops exclude each other: keep one of them`},
		{"list of all", "- a\n- b", `:1: this is no config file: write an option and its value in each line, such as "capacity: 5"`},
		{"a word", "hello", `:1: this is no config file: write an option and its value in each line, such as "capacity: 5"`},
		{"two documents", "log: info\n---\nlog: warn", `:2: there is a second document in the file: take out the "---" between them`},
		{"tabs", "log: info\n\tcapacity: 5", ":2: this is not YAML: found a tab character that violates indentation"},
		{"not closed", "log: \"info\ncapacity: 5", ":2: this is not YAML: found unexpected end of stream"},
		{"unknown alias", "log: *x", ": this is not YAML: unknown anchor 'x' referenced"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			path := write(t, tt.text)
			_, err := Read(parse(t, "--config", path), environment{}.get)
			require.Error(t, err)
			line := strings.ReplaceAll(err.Error(), path, "FILE")
			require.NotContains(t, line, "\n")
			require.Equal(t, "FILE"+tt.want, line)
		})
	}
	_, err := Read(parse(t, "--config", "not-there.yaml"), environment{}.get)
	require.EqualError(t, err, "--config cannot be read: open not-there.yaml: no such file or directory")
}

func TestFileThatEverybodyCanRead(t *testing.T) {
	path := write(t, "secret: s\nhttp-token: t\nlog: info")
	require.Empty(t, read(t, nil, "--config", path).Notices)
	require.NoError(t, os.Chmod(path, 0o644))
	require.Equal(t, []Notice{
		{exposed, path, "its secret is a secret: chmod o= " + path},
		{exposed, path, "its http-token is a secret: chmod o= " + path},
	}, read(t, nil, "--config", path).Notices)

	harmless := write(t, "log: info")
	require.NoError(t, os.Chmod(harmless, 0o644))
	require.Empty(t, read(t, environment{"WORKER_SECRET": "s"}, "--config", harmless).Notices)
}

func TestSuggest(t *testing.T) {
	for typed, want := range map[string]string{
		"capcity": "capacity", "work-loops": "workloops", "secrets": "secret", "lighting": "lightning", "workloosp": "workloops", "prot": "port", "x": "", "whatever": "",
	} {
		require.Equal(t, want, Suggest(typed), typed)
	}
}

// Whatever is in a file, there is a sentence about it and no panic.
func FuzzFile(f *testing.F) {
	for _, seed := range []string{"capacity: 5", "a: [b, *c]", "&a\nx: *a", "? [a]\n: b", "<<: {capacity: 5}", "!!binary x: y", "---\n...\n---"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		path := filepath.Join(t.TempDir(), "f.yaml")
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
		_, err := readFile(value{text: path, from: "--config"})
		if err != nil {
			require.ErrorAs(t, err, new(*Error))
		}
	})
}
