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
		{"read limit for nothing", nil, []string{"--read-limit", "0.5"}, `--read-limit "0.5" is too small for any plan: write 1 MB at least`},
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
		{"nothing is given back", nil, []string{"--prefetch", "1", "--accept-adaptors", "@openfn/language-http", "--max-attempts", "2", "--extensions", "lease"}, []Notice{
			{noEffect, "--prefetch", notGiven}, {noEffect, "--accept-adaptors", notGiven}, {noEffect, "--max-attempts", notCounted},
		}},
		{"something is", nil, []string{"--prefetch", "1", "--accept-adaptors", "@openfn/language-http", "--max-attempts", "2", "--extensions", "all"}, nil},
		{"deprecated", nil, []string{"--socket-timeout", "5"}, []Notice{{deprecated, "--socket-timeout", "it is called --message-timeout now"}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, tt.want, read(t, tt.env, append(tt.args, "-s", "s")...).Notices)
		})
	}
}
