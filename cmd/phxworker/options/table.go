package options

// Why options have no effect.
const (
	noProfile = "there is no profiler in the worker"
	noDebug   = "it lets ws-worker start without a secret"
	noRetries = "an event is sent again after each reconnect, as often as needed, and never on a mere time-out"
)

// Table returns every option. The first names and the defaults of those of
// ws-worker are ws-worker's, except for the level of the log.
func Table() []Option {
	return []Option{
		{
			Flag: "lightning", Aliases: []string{"l", "lightning-service-url"}, Env: []string{"WORKER_LIGHTNING_SERVICE_URL"}, Group: Server, Placeholder: "URL",
			Default: "ws://localhost:4000/worker", Usage: `the server's worker endpoint, or "mock" for a mock server on this machine, ws://localhost:8888/worker`,
		},
		{
			Flag: "secret", Aliases: []string{"s"}, Env: []string{"WORKER_SECRET"}, Group: Server, Placeholder: "SECRET", Secret: true,
			Usage: "what the worker proves itself with to the server; required, except with the mock server. A flag can be read by every user of the machine: prefer the variable, or --secret-file",
		},
		{
			Flag: "secret-file", Env: []string{"WORKER_SECRET_FILE"}, Ours: true, Group: Server, Placeholder: "FILE",
			Usage: "file with what --secret would say, in one line",
		},
		{
			Flag: "lightning-public-key", Env: []string{"WORKER_LIGHTNING_PUBLIC_KEY"}, Group: Server, Placeholder: "BASE64",
			Usage: "the server's public key, PEM in base64; with it, only runs that the server has signed are executed",
		},
		{
			Flag: "ca-file", Env: []string{"WORKER_CA_FILE"}, Ours: true, Group: Server, Placeholder: "FILE",
			Usage: "PEM file with certificate authorities to trust, beside those of the system",
		},
		{
			Env: []string{"WORKER_NAME", "DEPLOYED_POD_NAME"}, Group: Server, Placeholder: "NAME",
			Usage: "what the server shows as the one who took a run",
		},
		{
			Flag: "config", Env: []string{"WORKER_CONFIG"}, Ours: true, Group: Server, Placeholder: "FILE",
			Usage: `YAML file with options, such as "capacity: 5"; flags and variables beat it, and "phxworker config" writes one`,
		},
		{
			Flag: "extensions", Env: []string{"WORKER_EXTENSIONS"}, Ours: true, Kind: List, Group: Server, Placeholder: "NAME,NAME",
			Default: "none", Usage: "what to offer the server beyond Lightning's protocol: none, all, or names from docs/extensions",
		},
		{
			Flag: "message-timeout", Env: []string{"WORKER_MESSAGE_TIMEOUT_SECONDS"}, Group: Server, Placeholder: "SECONDS",
			Default: "30", Usage: "how long an event of a run may go unanswered before its topic is joined anew and it is sent again",
		},
		{
			Flag: "read-limit", Env: []string{"WORKER_READ_LIMIT_MB"}, Ours: true, Group: Server, Placeholder: "MB",
			Default: "64", Usage: "the largest message to read from the server; a run whose input is larger ends with an error",
		},
		{
			Flag: "socket-timeout", Env: []string{"WORKER_SOCKET_TIMEOUT_SECONDS"}, Group: Server, Placeholder: "SECONDS",
			Usage: "deprecated, now --message-timeout",
		},

		{
			Flag: "capacity", Env: []string{"WORKER_CAPACITY"}, Group: Claims, Placeholder: "N",
			Default: "5", Usage: "how many runs to execute at once, from any queue; excludes --workloops",
		},
		{
			Flag: "workloops", Env: []string{"WORKER_WORKLOOPS"}, Group: Claims, Placeholder: "GROUPS",
			Usage: `slot groups, such as "fast_lane:1 manual>*:4": queues by preference, "*" for the rest, then the number of slots`,
		},
		{
			Flag: "queues", Env: []string{"WORKER_QUEUES"}, Ours: true, Group: Claims, Placeholder: "GROUPS",
			Usage: `the same as --workloops; the older comma is good in both, "manual,*:4"`,
		},
		{
			Flag: "backoff", Env: []string{"WORKER_BACKOFF"}, Group: Claims, Placeholder: "MIN/MAX",
			Default: "1/10", Usage: "the shortest and the longest pause between claims that bring nothing, in seconds",
		},
		{
			Flag: "claim-timeout", Env: []string{"WORKER_CLAIM_TIMEOUT_SECONDS"}, Group: Claims, Placeholder: "SECONDS",
			Default: "3600", Usage: "how long to wait for the answer to a claim",
		},
		{
			Flag: "claim-all", Env: []string{"WORKER_CLAIM_ALL"}, Ours: true, Kind: Toggle, Group: Claims,
			Default: "off", Usage: "claim as many runs at once as there are free slots, instead of one",
		},
		{
			Flag: "loop", Kind: Toggle, Group: Claims,
			Default: "on", Usage: "claim whenever there is a free slot; --no-loop: only when asked to, with POST /claim",
		},
		{
			Flag: "prefetch", Env: []string{"WORKER_PREFETCH"}, Ours: true, Group: Claims, Placeholder: "0|1",
			Default: "0", Usage: "1 claims one run ahead for each group, where the server takes back what waits too long; 0 claims none ahead",
		},
		{
			Flag: "max-runs", Env: []string{"WORKER_MAX_RUNS"}, Ours: true, Group: Claims, Placeholder: "N",
			Usage: "stop in good order once so many runs were begun; what is claimed by then is executed as well, so it is exact with one slot; no limit by default",
		},
		{
			Flag: "idle-timeout", Env: []string{"WORKER_IDLE_TIMEOUT_SECONDS"}, Ours: true, Group: Claims, Placeholder: "SECONDS",
			Usage: "stop in good order after so long without a run; never by default",
		},
		{
			Flag: "max-errors", Env: []string{"WORKER_MAX_ERRORS"}, Ours: true, Group: Claims, Placeholder: "N",
			Usage: "stop when claims and reports have failed this often, each success taking one off; no limit by default",
		},

		{
			Flag: "engine", Env: []string{"WORKER_ENGINE"}, Ours: true, Group: Runs, Placeholder: "NAME",
			Default: "auto", Usage: `what executes the runs: "js", the embedded engine, with adaptors as they are published where what they reach is in it; "openfn", OpenFn's runtime in Node, with any adaptor; "auto", the first where it is enough; or a command, such as "python3 engine.py"`,
		},
		{
			Flag: "engine-reuse", Env: []string{"WORKER_ENGINE_REUSE"}, Ours: true, Group: Runs, Placeholder: "N",
			Default: "1", Usage: "how many runs of one project a process of the engine executes; with more than one, runs are faster and see what others of their project left behind",
		},
		{
			Flag: "engine-validation-timeout-ms", Env: []string{"WORKER_VALIDATION_TIMEOUT_MS"}, Group: Runs, Placeholder: "MS",
			Default: "5000", Usage: "how long an engine that is a command may take to answer when the worker starts",
		},
		{
			Flag: "engine-validation-retries", Env: []string{"WORKER_VALIDATION_RETRIES"}, Group: Runs, Placeholder: "N",
			Default: "3", Usage: "how often to try that again",
		},
		{
			Flag: "require-fences", Env: []string{"WORKER_REQUIRE_FENCES"}, Ours: true, Kind: Toggle, Group: Runs,
			Default: "off", Usage: "start nothing unless the kernel has every fence that keeps jobs in Node from other files and processes; see docs/security.md",
		},
		{
			Flag: "egress", Env: []string{"WORKER_EGRESS"}, Ours: true, Kind: List, Group: Runs, Placeholder: "LIST",
			Default: "public,private", Usage: `where jobs of the embedded engine may connect to, and nowhere else: public, private, loopback, link-local, metadata, any, none, networks (10.1.0.0/16), hosts (fhir.clinic.example, *.clinic.example); "!" refuses, as in "any,!metadata"; see docs/security.md`,
		},
		{
			Flag: "egress-limit", Env: []string{"WORKER_EGRESS_LIMIT_MB"}, Ours: true, Group: Runs, Placeholder: "MB",
			Default: "1024", Usage: "how much a run in the embedded engine may send and receive in all; 0 is no limit",
		},
		{
			Flag: "repo-dir", Aliases: []string{"d"}, Env: []string{"WORKER_REPO_DIR"}, Group: Runs, Placeholder: "DIR",
			Usage: "where adaptors are installed; by default a folder in the user's cache",
		},
		{
			Flag: "monorepo-dir", Aliases: []string{"m"}, Env: []string{"OPENFN_ADAPTORS_REPO"}, Group: Runs, Placeholder: "DIR",
			Usage: "where adaptors of version local are loaded from",
		},
		{
			Flag: "collections-url", Aliases: []string{"c"}, Env: []string{"WORKER_COLLECTIONS_URL"}, Group: Runs, Placeholder: "URL",
			Usage: "the server's collections, for jobs that speak of them",
		},
		{
			Flag: "collections-version", Env: []string{"WORKER_COLLECTIONS_VERSION"}, Group: Runs, Placeholder: "VERSION",
			Default: "latest", Usage: "version of the collections adaptor",
		},
		{
			Flag: "mock", Kind: Toggle, Group: Runs,
			Default: "off", Usage: "the same as --engine js",
		},
		{
			Flag: "max-run-duration-seconds", Aliases: []string{"t"}, Env: []string{"WORKER_MAX_RUN_DURATION_SECONDS"}, Group: Runs, Placeholder: "SECONDS",
			Default: "300", Usage: "how long a run may take, unless its plan says otherwise; 0 stands for 600",
		},
		{
			Flag: "run-memory", Env: []string{"WORKER_MAX_RUN_MEMORY_MB"}, Group: Runs, Placeholder: "MB",
			Default: "500", Usage: "how much memory a run may use, unless its plan says otherwise; 0 stands for the default",
		},
		{
			Flag: "cgroups", Env: []string{"WORKER_ENABLE_CGROUP_ENFORCEMENT"}, Kind: Toggle, Group: Runs,
			Default: "off", Usage: "have the kernel keep each process of the engine to the memory of its run, in a control group (v2) of its own; the worker needs a group that it may write, see docs/deploy.md",
		},
		{
			Env: []string{"CGROUP_MEMORY_OVERHEAD_MB"}, Group: Runs, Placeholder: "MB",
			Default: "128", Usage: "what a process may have besides the memory of its run, with --cgroups",
		},
		{
			Flag: "state-memory", Env: []string{"WORKER_MAX_STATE_MEMORY_MB"}, Group: Runs, Placeholder: "MB",
			Usage: "how large a state, as JSON, a step may leave behind for the next, unless its plan says otherwise; by default 15 % of the run's memory, and 50 at least; 0 is no limit",
		},
		{
			Flag: "compile-memory", Env: []string{"WORKER_COMPILE_MEMORY_MB"}, Ours: true, Group: Runs, Placeholder: "MB",
			Default: "64", Usage: "how much memory compiling the code of runs may take in the worker; a job that would take more is refused: with 64, one of some 400 kB",
		},
		{
			Flag: "embedded-input", Env: []string{"WORKER_EMBEDDED_INPUT_MB"}, Ours: true, Group: Runs, Placeholder: "MB",
			Default: "1", Usage: "with --engine auto, the largest input of a run that the embedded engine executes: with much to compute, Node is the faster one; 0 is no limit",
		},
		{
			Flag: "payload-memory", Env: []string{"WORKER_MAX_PAYLOAD_MB"}, Group: Runs, Placeholder: "MB",
			Default: "10", Usage: "the largest dataclip or final state that is sent, unless the plan says otherwise; 0 withholds all",
		},
		{
			Flag: "log-payload-memory", Env: []string{"WORKER_MAX_LOG_PAYLOAD_MB"}, Group: Runs, Placeholder: "MB",
			Default: "1", Usage: "the largest log line of a run that is sent, unless the plan says otherwise; 0 withholds what they say",
		},
		{
			Flag: "no-stringify-state", Env: []string{"WORKER_NO_STRINGIFY_STATE"}, Kind: Toggle, Group: Runs,
			Default: "off", Usage: "send a step's output as a JSON object and not as a text with JSON in it, which is up to twice as long; Lightning takes it from 2.19 on; a server that refuses it gets texts",
		},
		{
			Flag: "state-props-to-remove", Env: []string{"WORKER_STATE_PROPS_TO_REMOVE"}, Kind: List, Group: Runs, Placeholder: "KEY,KEY",
			Default: "configuration,response", Usage: "what to take out of the state that a step returns",
		},

		{
			Flag: "grace", Env: []string{"WORKER_GRACE_SECONDS"}, Ours: true, Group: Runs, Placeholder: "SECONDS",
			Usage: "how long runs may go on after the worker was told to stop; by default as long as a run may take",
		},
		{
			Flag: "logs", Env: []string{"WORKER_LOGS"}, Ours: true, Group: Runs, Placeholder: "POLICY",
			Default: "at-least-once", Usage: "what becomes of a run's log lines that a connection was lost under: at-least-once or at-most-once",
		},
		{
			Flag: "accept-adaptors", Env: []string{"WORKER_ACCEPT_ADAPTORS"}, Ours: true, Kind: List, Group: Runs, Placeholder: "NAME,NAME",
			Usage: "execute only runs that need none but these adaptors, such as @openfn/language-http; all by default",
		},
		{
			Flag: "unsuitable", Env: []string{"WORKER_UNSUITABLE"}, Ours: true, Group: Runs, Placeholder: "WHAT",
			Default: "run", Usage: "what becomes of a run that is not for this worker on a server that takes none back: run or fail",
		},
		{
			Flag: "max-attempts", Env: []string{"WORKER_MAX_ATTEMPTS"}, Ours: true, Group: Runs, Placeholder: "N",
			Default: "3", Usage: "how often a run may be tried by any worker, where the server counts",
		},
		{
			Flag: "spool", Env: []string{"WORKER_SPOOL"}, Ours: true, Group: Runs, Placeholder: "DIR",
			Usage: `folder, which must be there, for what could not be reported of a run; "phxworker spool" sends it later`,
		},
		{
			Flag: "batch-logs", Env: []string{"WORKER_BATCH_LOGS"}, Kind: Toggle, Group: Runs,
			Default: "off", Usage: "send several log lines of a run in one message, run:batch_logs, which only newer servers know",
		},
		{
			Flag: "batch-interval", Env: []string{"WORKER_BATCH_INTERVAL"}, Group: Runs, Placeholder: "MS",
			Default: "10", Usage: "for how many milliseconds to collect log lines",
		},
		{
			Flag: "batch-limit", Env: []string{"WORKER_BATCH_LIMIT"}, Group: Runs, Placeholder: "N",
			Default: "50", Usage: "how many log lines to send in one message",
		},

		{
			Flag: "port", Aliases: []string{"p"}, Env: []string{"WORKER_PORT"}, Group: Serving, Placeholder: "PORT",
			Default: "2222", Usage: `where to serve health, metrics, status and control; 0 lets the system choose, "off" serves nothing`,
		},
		{
			Flag: "host", Env: []string{"WORKER_HOST"}, Ours: true, Group: Serving, Placeholder: "ADDRESS",
			Usage: "the address to listen at, such as 127.0.0.1; by default all of this machine",
		},
		{
			Flag: "http-token", Env: []string{"WORKER_HTTP_TOKEN"}, Ours: true, Group: Serving, Placeholder: "TOKEN", Secret: true,
			Usage: "what whoever pauses, drains or cancels must have; by default, the worker makes one for itself, which the commands of its user find",
		},
		{
			Flag: "http-token-file", Env: []string{"WORKER_HTTP_TOKEN_FILE"}, Ours: true, Group: Serving, Placeholder: "FILE",
			Usage: "file with what --http-token would say, in one line",
		},

		{
			Flag: "log", Env: []string{"WORKER_LOG_LEVEL"}, Group: Logs, Placeholder: "LEVEL",
			Default: "info", Usage: "the least severe level to log: debug, info, warn, error or none",
		},
		{
			Flag: "log-format", Env: []string{"WORKER_LOG_FORMAT"}, Ours: true, Group: Logs, Placeholder: "FORMAT",
			Default: "auto", Usage: "text, json, or auto: text on a terminal and json elsewhere",
		},
		{
			Flag: "sentry-dsn", Aliases: []string{"dsn"}, Env: []string{"WORKER_SENTRY_DSN"}, Group: Logs, Placeholder: "DSN", Secret: true,
			Usage: "the Sentry project to report errors to; none by default",
		},
		{
			Flag: "sentry-env", Env: []string{"WORKER_SENTRY_ENV"}, Group: Logs, Placeholder: "NAME",
			Default: "dev", Usage: "the environment that Sentry shows",
		},

		{Flag: "debug", Kind: Toggle, Group: other, Default: "off", Usage: "start without a secret", NoEffect: noDebug},
		{Flag: "profile", Env: []string{"WORKER_PROFILE"}, Kind: Toggle, Group: other, Default: "off", Usage: "measure memory while runs execute", NoEffect: noProfile},
		{Flag: "profile-poll-interval-ms", Env: []string{"WORKER_PROFILE_POLL_INTERVAL_MS"}, Group: other, Default: "10", Usage: "how often to measure", NoEffect: noProfile},
		{Flag: "timeout-retry-count", Env: []string{"WORKER_TIMEOUT_RETRY_COUNT"}, Group: other, Default: "10", Usage: "how often to send an event again", NoEffect: noRetries},
		{Flag: "timeout-retry-delay", Env: []string{"WORKER_TIMEOUT_RETRY_DELAY_MS"}, Group: other, Default: "30000", Usage: "milliseconds between the tries", NoEffect: noRetries},
	}
}
