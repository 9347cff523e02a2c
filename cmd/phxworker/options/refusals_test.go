package options

import (
	"encoding/pem"
	"maps"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestReadRefuses(t *testing.T) {
	dir := t.TempDir()
	empty := filepath.Join(dir, "empty.pem")
	require.NoError(t, os.WriteFile(empty, []byte("nothing"), 0o600))
	nothing, several, large := filepath.Join(dir, "nothing"), filepath.Join(dir, "several"), filepath.Join(dir, "large")
	require.NoError(t, os.WriteFile(nothing, []byte(" \n"), 0o600))
	require.NoError(t, os.WriteFile(several, []byte("hidden\nlines\n"), 0o600))
	require.NoError(t, os.WriteFile(large, make([]byte, 1<<20), 0o600))
	tests := []struct {
		name string
		env  environment
		args []string
		want string
	}{
		{"secret and a file with it", nil, []string{"--secret-file", several}, "WORKER_SECRET and --secret-file exclude each other: keep one of them"},
		{"token and a file with it", environment{"WORKER_HTTP_TOKEN_FILE": several}, []string{"--http-token", "t"}, "--http-token and WORKER_HTTP_TOKEN_FILE exclude each other: keep one of them"},
		{"file of a secret is missing", environment{"WORKER_SECRET": "", "WORKER_SECRET_FILE": dir + "/no"}, nil, "WORKER_SECRET_FILE: the file cannot be read: open " + dir + "/no: no such file or directory"},
		{"file of a secret is a folder", environment{"WORKER_SECRET": ""}, []string{"--secret-file", dir}, "--secret-file: the file cannot be read: read " + dir + ": is a directory"},
		{"file of a token is empty", nil, []string{"--http-token-file", nothing}, "--http-token-file: " + nothing + " is empty: write the secret into it"},
		{"file of a token has two", nil, []string{"--http-token-file", several}, "--http-token-file: " + several + " has several lines: write the secret alone into it, in one"},
		{"file of a secret is another", environment{"WORKER_SECRET": ""}, []string{"--secret-file", large}, "--secret-file: " + large + " is too large for a secret: name a file with the secret alone"},
		{"no secret", environment{"WORKER_SECRET": ""}, nil, "no secret: set WORKER_SECRET to the secret that the server knows its workers by, or --secret-file to a file with it"},
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
		{"a host with a port", environment{"WORKER_EGRESS": "public,fhir.example:8080"}, nil, `WORKER_EGRESS: "fhir.example:8080" has a port, or is no address: write the host alone`},
		{"limit that may be 0", nil, []string{"--state-memory=-1"}, `--state-memory "-1" is not a number of MB: write one from 0 up`},
		{"memory is not a number", nil, []string{"--run-memory", "NaN"}, `--run-memory "NaN" is not a number of MB: write one greater than 0`},
		{"read limit beyond any memory", nil, []string{"--read-limit", "99999999"}, `--read-limit "99999999" is more than the worker can hold: write 65536 MB at most`},
		{"read limit for nothing", nil, []string{"--read-limit", "0.5"}, `--read-limit "0.5" is too small for any plan: write 1 MB at least`},
		{"URL without scheme", nil, []string{"-l", "localhost:4000/worker"}, "--lightning is not a websocket URL: write it like wss://lightning.example.org/worker"},
		{"URL with what the worker adds", nil, []string{"-l", "wss://lightning.test/worker/websocket/"}, "--lightning ends in /websocket, which the worker adds by itself: write it without, like wss://lightning.example.org/worker"},
		{
			"URL in quotes",
			environment{"WORKER_LIGHTNING_SERVICE_URL": `"wss://lightning.test/worker"`},
			nil,
			"WORKER_LIGHTNING_SERVICE_URL is not a websocket URL: write it like wss://lightning.example.org/worker; " +
				"WORKER_LIGHTNING_SERVICE_URL has quotes around its value, which are part of it: take them out, for Docker leaves those of an env file in",
		},
		{"level", environment{"WORKER_LOG_LEVEL": "loud"}, nil, `WORKER_LOG_LEVEL "loud" is not a level: write debug, info, warn, error or none`},
		{"format", nil, []string{"--log-format", "xml"}, `--log-format "xml" is not known: write auto or text or json`},
		{"engine and mock", nil, []string{"--engine", "openfn", "--mock"}, `--engine "openfn" and --mock exclude each other: --mock is --engine js`},
		{"collections", nil, []string{"-c", "lightning"}, "--collections-url is not a URL: write it like https://lightning.example.org/collections"},
		{"password", nil, []string{"-l", "wss://me:secret@lightning.test/worker"}, "--lightning has a user name or a password in it, which the server does not want: workers prove themselves with --secret"},
		{"engine", nil, []string{"--engine", "opnfn"}, `--engine "opnfn" is not known: write auto, js, openfn, or a command whose program is there`},
		{"node", nil, []string{"--engine", "node"}, `--engine node is a command that says nothing: for OpenFn's runtime in Node, write openfn`},
		{"CA file without certificate", nil, []string{"--ca-file", empty}, "--ca-file " + empty + " has no certificate in it: give a PEM file with BEGIN CERTIFICATE"},
		{"port", nil, []string{"-p", "65536"}, `--port "65536" is not a port: write a number from 0 to 65535, or off`},
		{"host with a port", environment{"WORKER_HOST": "localhost:80"}, nil, `WORKER_HOST "localhost:80" is not an address to listen at: write an IP address or a name, with no port`},
		{"nothing to claim with", nil, []string{"--no-loop", "--port", "off"}, "--no-loop and --port exclude each other: nothing would be claimed, for POST /claim is not served"},
		{"public key", environment{"WORKER_LIGHTNING_PUBLIC_KEY": "?"}, nil, "WORKER_LIGHTNING_PUBLIC_KEY: public key for run tokens: it is neither PEM nor base64: illegal base64 data at input byte 0; give the RSA public key as PEM, or that PEM in base64 (Lightning's WORKER_LIGHTNING_PUBLIC_KEY)"},
		{"groups", nil, []string{"--queues", "manual"}, `--queues: slot group "manual": the number of slots is missing; write it after a colon, with no space before it: "manual:1"`},
		{"DSN", environment{"WORKER_SENTRY_DSN": "https://hidden-key@sentry.test"}, nil, "WORKER_SENTRY_DSN is not a Sentry DSN: copy it from the project's settings, it is like https://KEY@sentry.example.org/1"},
		{"retries", nil, []string{"--engine-validation-retries", "-1"}, `--engine-validation-retries "-1" is not a number: write a whole number from 0 up`},
		{"batch of none", nil, []string{"--batch-limit", "0"}, `--batch-limit "0" is not a number: write a whole number from 1 up`},
		{"toggle", environment{"WORKER_BATCH_LOGS": "maybe"}, nil, `WORKER_BATCH_LOGS "maybe" is neither on nor off: write true, false, yes, no, on, off, 1 or 0`},
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

	config := read(t, environment{"WORKER_SECRET": "s"}, "--ca-file", file).Worker.Transport.TLS
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
		{"an overhead of groups that there are none of", environment{"CGROUP_MEMORY_OVERHEAD_MB": "256"}, nil, []Notice{{noEffect, "CGROUP_MEMORY_OVERHEAD_MB", notGrouped}}},
		{"groups of processes that there are none of", nil, []string{"--cgroups", "--engine", "js"}, []Notice{{noEffect, "--cgroups", notProcesses}}},
		{"secret in quotes", environment{"WORKER_SECRET": "'s'"}, nil, []Notice{
			{doubtful, "WORKER_SECRET", "has quotes around its value, which are part of it: take them out, for Docker leaves those of an env file in"},
		}},
		{"batches that are on", environment{"WORKER_BATCH_LIMIT": "5"}, []string{"--batch-logs"}, nil},
		{"validation of an engine that has none", environment{"WORKER_VALIDATION_RETRIES": "5"}, nil, []Notice{{noEffect, "WORKER_VALIDATION_RETRIES", notChecked}}},
		{"validation of a command", environment{"WORKER_VALIDATION_RETRIES": "5"}, []string{"--engine", "go"}, nil},
		{"nothing is served", environment{"WORKER_PORT": "off"}, []string{"--http-token", "t", "--host", "::1"}, []Notice{
			{noEffect, "--host", notServed},
			{noEffect, "--http-token", notServed},
			{onShow, "--http-token", "every user of this machine can read it there: set WORKER_HTTP_TOKEN or --http-token-file in its place"},
		}},
		{"a secret that all can see", environment{"WORKER_SECRET": ""}, []string{"-s", "hidden"}, []Notice{
			{onShow, "--secret", "every user of this machine can read it there: set WORKER_SECRET or --secret-file in its place"},
		}},
		{"a secret that is none", environment{"WORKER_SECRET": ""}, []string{"-l", "mock", "-s", mockSecret}, nil},
		{"an address with a key that all can see", nil, []string{"--sentry-dsn", "https://key@sentry.example.org/1"}, []Notice{
			{onShow, "--sentry-dsn", "every user of this machine can read it there: set WORKER_SENTRY_DSN in its place"},
		}},
		{"less grace than a run may take", environment{"WORKER_GRACE_SECONDS": "60"}, nil, []Notice{
			{doubtful, "WORKER_GRACE_SECONDS", "a run may take 5m0s, and 1m0s after a signal those under way are cancelled"},
		}},
		{"enough grace", nil, []string{"--grace", "60", "-t", "60"}, nil},
		{"nothing is returned", nil, []string{"--prefetch", "1", "--accept-adaptors", "@openfn/language-http", "--max-attempts", "2", "--extensions", "lease"}, []Notice{
			{noEffect, "--prefetch", notGiven}, {noEffect, "--accept-adaptors", notGiven}, {noEffect, "--max-attempts", notCounted},
		}},
		{"something is", nil, []string{"--prefetch", "1", "--accept-adaptors", "@openfn/language-http", "--max-attempts", "2", "--extensions", "all"}, nil},
		{"deprecated", nil, []string{"--socket-timeout", "5"}, []Notice{{deprecated, "--socket-timeout", "it is called --message-timeout now"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			env := environment{"WORKER_SECRET": "s"}
			maps.Copy(env, tt.env)
			require.Equal(t, tt.want, read(t, env, tt.args...).Notices)
		})
	}
}

func TestSecretsFromFiles(t *testing.T) {
	secret, token := write(t, "s e c r e t\n"), write(t, "t")
	settings := read(t, environment{"WORKER_HTTP_TOKEN_FILE": token}, "--secret-file", secret)
	require.Equal(t, "s e c r e t", settings.Worker.Secret)
	require.Equal(t, "t", settings.HTTP.Token)
	require.Empty(t, settings.Notices)

	settings = read(t, nil, "--config", write(t, "secret-file: "+secret+"\nhttp-token-file: "+token))
	require.Equal(t, "s e c r e t", settings.Worker.Secret)
	require.Equal(t, "t", settings.HTTP.Token)

	require.NoError(t, os.Chmod(secret, 0o644))
	require.NoError(t, os.WriteFile(secret, []byte("from elsewhere\r\n"), 0o600))
	settings = read(t, environment{"WORKER_SECRET_FILE": secret})
	require.Equal(t, "from elsewhere", settings.Worker.Secret)
	require.Equal(t, []Notice{{openFile, "WORKER_SECRET_FILE", "chmod o= " + secret}}, settings.Notices)
}

func TestTheTokenOfACommand(t *testing.T) {
	file := write(t, "from-a-file\n")
	for want, given := range map[string]struct {
		env  environment
		args []string
	}{
		"":            {environment{"WORKER_CONFIG": "not-looked-at.yaml"}, nil},
		"flag":        {environment{"WORKER_HTTP_TOKEN": "variable"}, []string{"--http-token", "flag"}},
		"variable":    {environment{"WORKER_HTTP_TOKEN": "variable"}, nil},
		"from-a-file": {environment{"WORKER_HTTP_TOKEN_FILE": file}, nil},
	} {
		got, err := HTTPToken(parse(t, given.args...), given.env.get)
		require.NoError(t, err)
		require.Equal(t, want, got)
	}
	_, err := HTTPToken(parse(t, "--http-token-file", file), environment{"WORKER_HTTP_TOKEN": "t"}.get)
	require.EqualError(t, err, "WORKER_HTTP_TOKEN and --http-token-file exclude each other: keep one of them")
}
