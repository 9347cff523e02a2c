package options

import (
	"errors"
	"time"

	"github.com/phxworker/phxworker"
)

// Settings are what the options come to.
type Settings struct {
	// Worker is complete but for its engine, logger and version.
	Worker phxworker.Config
	// AcceptAdaptors are the only adaptors of runs that are executed; nil: any.
	AcceptAdaptors []string
	// Engine is what executes the runs.
	Engine Engine
	// HTTP is what to serve.
	HTTP HTTP
	// Log is how to log.
	Log Log
	// Sentry is where to report errors.
	Sentry Sentry
	// Notices are for the log: what is set without effect, or doubtful.
	Notices []Notice
}

// HTTP is what the worker serves.
type HTTP struct {
	Host  string // empty: all addresses of this machine
	Port  string // "0": the system chooses; "off": nothing is served
	Token string // who may control the worker; empty: the worker makes one
}

// Sentry is where errors are reported.
type Sentry struct {
	DSN         string // empty: nowhere
	Environment string
}

// Parsed is a command line that was parsed. A command of urfave/cli is one.
type Parsed interface {
	IsSet(name string) bool
	String(name string) string
	StringSlice(name string) []string
	Bool(name string) bool
}

const (
	// What cmd/mockserver listens at and asks for unless told otherwise.
	mockURL    = "ws://localhost:8888/worker"
	mockPage   = "http://localhost:8888/"
	mockSecret = "mock-worker-secret" //nolint:gosec // known to everybody, and protects nothing

	// What 0 stands for in ws-worker, whose engine has defaults of its own.
	zeroMB, zeroSeconds = 500, 600

	// portOff is the port of a worker that serves nothing.
	portOff = "off"
)

// Read returns the settings; see [Collect]. The error is an [*Error].
func Read(flags Parsed, getenv func(string) string) (Settings, error) {
	values, err := Collect(flags, getenv)
	if err != nil {
		return Settings{}, err
	}
	return values.Settings()
}

// Settings returns what the values come to. The error is an [*Error].
func (v *Values) Settings() (Settings, error) {
	r := newReader(v)
	s := r.settings()
	quoted := v.quoted()
	if problem, ok := errors.AsType[*Error](r.err); ok {
		for _, n := range quoted {
			problem.Problem += "; " + n.Option + " " + n.Reason
		}
		return s, problem
	}
	s.Notices = append(s.Notices, quoted...)
	return s, r.err
}

// Spool returns the folder for what could not be reported, empty if none is set. It
// asks for nothing else: to look into the folder takes no secret. The error is an
// [*Error].
func (v *Values) Spool() (string, error) {
	r := newReader(v)
	return r.folder("spool"), r.err
}

// Execution returns what the options say of executing runs, wherever these come from: Engine, Worker.Limits, Log, and
// Notices of where jobs may connect to. It asks for nothing else: to execute one takes no server and no secret. The error is an [*Error].
func (v *Values) Execution() (Settings, error) {
	r := newReader(v)
	s := Settings{Engine: r.engine(), Log: r.log()}
	s.Worker.Limits, s.Notices = r.limits(), r.egressNotices(s.Engine.Name)
	return s, r.err
}

// HTTPToken returns the token that the options give for the controls of a worker,
// empty if they give none. It asks for nothing else, and reads no config file. The
// error is an [*Error].
func HTTPToken(flags Parsed, getenv func(string) string) (string, error) {
	values := &Values{byKey: make(map[string]value)}
	for _, o := range Table() {
		if o.Key() != "http-token" && o.Key() != "http-token-file" {
			continue
		}
		if v, ok := o.lookup(flags, getenv); ok {
			values.byKey[o.Key()] = v
		}
	}
	r := newReader(values)
	return r.secret("http-token", "http-token-file"), r.err
}

func (r *reader) settings() Settings {
	s := Settings{
		Worker: phxworker.Config{
			URL:         r.endpoint("lightning"),
			Secret:      r.secret("secret", "secret-file"),
			Groups:      r.groups(),
			Name:        r.text("name"),
			PublicKey:   r.publicKey("lightning-public-key"),
			MaxAttempts: r.whole("max-attempts", 1),
			Extensions:  r.extensions("extensions"),
			Grace:       r.seconds("grace"),
			MaxErrors:   r.whole("max-errors", 1),
			MaxRuns:     r.whole("max-runs", 1),
			IdleTimeout: r.seconds("idle-timeout"),
			Claim: phxworker.Claim{
				Timeout:   r.seconds("claim-timeout"),
				DemandAll: r.toggle("claim-all"),
				Manual:    !r.toggle("loop"),
				Prefetch:  r.oneOf("prefetch", "0", "1") == "1",
			},
			Delivery: phxworker.Delivery{
				MessageTimeout:  r.messageTimeout(),
				NativeDataclips: r.toggle("no-stringify-state"),
				LogsAtMostOnce:  r.oneOf("logs", "at-least-once", "at-most-once") == "at-most-once",
				Spool:           r.folder("spool"),
			},
			Hooks:     phxworker.Hooks{RefuseUnsuitable: r.oneOf("unsuitable", "run", "fail") == "fail"},
			Transport: phxworker.Transport{TLS: r.authorities("ca-file"), ReadLimit: r.readLimit("read-limit")},
			Limits:    r.limits(),
		},
		AcceptAdaptors: r.adaptors("accept-adaptors"),

		Engine: r.engine(),
		HTTP:   HTTP{Host: r.host("host"), Port: r.port("port"), Token: r.secret("http-token", "http-token-file")},
		Log:    r.log(),
		Sentry: Sentry{DSN: r.dsn("sentry-dsn"), Environment: r.text("sentry-env")},
	}
	r.take(configKey) // Collect has read it
	batches := phxworker.BatchLogs{Interval: r.milliseconds("batch-interval"), Limit: r.whole("batch-limit", 1)}
	if r.toggle("batch-logs") {
		s.Worker.Delivery.BatchLogs = batches
	}
	s.Worker.Claim.MinBackoff, s.Worker.Claim.MaxBackoff = r.backoff("backoff")
	if s.Worker.Secret == "" {
		if s.Worker.URL != mockURL {
			r.failf("no secret: set WORKER_SECRET to the secret that the server knows its workers by, or --secret-file to a file with it")
		}
		s.Worker.Secret = mockSecret
	}
	if s.Worker.Claim.Manual && s.HTTP.Port == portOff {
		r.failf("%s and %s exclude each other: nothing would be claimed, for POST /claim is not served", r.byKey["loop"].from, r.byKey["port"].from)
	}
	s.Notices = r.notices(&s)
	return s
}

func (r *reader) limits() phxworker.Limits {
	return phxworker.Limits{
		RunTimeout:   seconds(r.orIfZero("max-run-duration-seconds", "seconds", zeroSeconds)),
		MemoryMB:     r.orIfZero("run-memory", "MB", zeroMB),
		StateMB:      r.limit("state-memory"),
		PayloadMB:    r.limit("payload-memory"),
		LogPayloadMB: r.limit("log-payload-memory"),
	}
}

func (r *reader) log() Log {
	return Log{Level: r.level("log"), Format: r.oneOf("log-format", "auto", "text", "json")}
}

// maxReadLimit, in megabytes, is beyond the memory of a worker, which holds a message several times.
const maxReadLimit = 64 << 10

// readLimit returns a number of bytes. With less than a megabyte, no plan would get through.
func (r *reader) readLimit(key string) int64 {
	mb := r.megabytes(key)
	switch v := r.byKey[key]; {
	case mb < 1:
		r.failf("%s %q is too small for any plan: write 1 MB at least", v.from, v.text)
	case mb > maxReadLimit:
		r.failf("%s %q is more than the worker can hold: write %d MB at most", v.from, v.text, maxReadLimit)
	}
	return int64(mb * (1 << 20))
}

// messageTimeout returns the time of the option or, if that is not set, of the
// deprecated one.
func (r *reader) messageTimeout() time.Duration {
	now, old := r.seconds("message-timeout"), r.seconds("socket-timeout")
	if _, ok := r.set("message-timeout"); !ok && old > 0 {
		return old
	}
	return now
}

// ServerPage is the address of the page that the server has for browsers: that of the mock server, where the worker is for
// that; empty for any other.
func (s *Settings) ServerPage() string {
	if s.Worker.URL == mockURL {
		return mockPage
	}
	return ""
}
