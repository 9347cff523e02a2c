package options

import (
	"slices"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/slots"
)

// Settings are what the options come to.
type Settings struct {
	// Worker is complete but for its engine, logger and version.
	Worker phxworker.Config
	// StateProps are what the engine takes out of a step's state. Nil if the
	// option is not set.
	StateProps []string
	// Log is how to log.
	Log Log
	// Notices are for the log: what was set without effect.
	Notices []Notice
}

// Notice tells of an option that was set and does not do what it did once, or
// does elsewhere.
type Notice struct {
	Message string // static
	Option  string // as it was set: a flag or a variable
	Reason  string
}

// Parsed is a command line that was parsed. A command of urfave/cli is one.
type Parsed interface {
	IsSet(name string) bool
	String(name string) string
	Bool(name string) bool
}

const (
	// What cmd/mockserver listens at and asks for unless told otherwise.
	mockURL    = "ws://localhost:8888/worker"
	mockSecret = "mock-worker-secret" //nolint:gosec // known to everybody, and protects nothing
)

// Read returns the settings. The flags must be those of [Flags]; getenv returns
// what the environment holds, empty for a variable that is not there. The error
// is an [*Error].
func Read(flags Parsed, getenv func(string) string) (Settings, error) {
	r := newReader(flags, getenv)
	s := r.settings()
	return s, r.err
}

func (r *reader) settings() Settings {
	s := Settings{
		Worker: phxworker.Config{
			URL:            r.endpoint("lightning"),
			Secret:         r.text("secret"),
			Groups:         r.groups(),
			PublicKey:      r.text("lightning-public-key"),
			DemandAll:      r.toggle("claim-all"),
			ClaimTimeout:   r.seconds("claim-timeout"),
			MessageTimeout: r.seconds("message-timeout"),
			MaxErrors:      r.whole("max-errors"),
			Grace:          r.seconds("grace"),
			LogsAtMostOnce: r.oneOf("logs", "at-least-once", "at-most-once") == "at-most-once",
			Spool:          r.folder("spool"),
			TLS:            r.authorities("ca-file"),
			Name:           r.text("WORKER_NAME"),
			Limits: phxworker.Limits{
				RunTimeout:   r.seconds("max-run-duration-seconds"),
				MemoryMB:     r.megabytes("run-memory"),
				PayloadMB:    r.megabytes("payload-memory"),
				LogPayloadMB: r.megabytes("log-payload-memory"),
			},
		},
		StateProps: r.list("state-props-to-remove"),
		Log:        Log{Level: r.level("log"), JSON: r.oneOf("log-format", "text", "json") == "json"},
	}
	s.Worker.MinBackoff, s.Worker.MaxBackoff = r.backoff("backoff")
	if old := r.seconds("socket-timeout"); s.Worker.MessageTimeout == 0 {
		s.Worker.MessageTimeout = old
	}
	r.oneOf("engine", "js")
	r.toggle("mock") // there is no other engine to choose

	if s.Worker.Secret == "" {
		if s.Worker.URL != mockURL {
			r.failf("no secret: set --secret or WORKER_SECRET to the secret that the server knows its workers by")
		}
		s.Worker.Secret = mockSecret
	}
	s.Notices = r.notices()
	return s
}

// groups returns the slot groups as [slots.Parse] reads them, empty for the
// default. The three options exclude each other, except that a flag beats what
// the environment says in any of them.
func (r *reader) groups() string {
	var name string
	var chosen value
	for _, candidate := range []string{"capacity", "workloops", "queues"} {
		v, ok := r.take(candidate)
		switch {
		case !ok || (chosen.flag && !v.flag):
		case name == "" || (v.flag && !chosen.flag):
			name, chosen = candidate, v
		default:
			r.failf("%s and %s exclude each other: keep one of them", chosen.from, v.from)
		}
	}
	if name == "capacity" {
		return slots.Format(slots.Plain(r.count(chosen)))
	}
	return chosen.text
}

// notices tells of the options that were set to something other than what
// happens here anyway.
func (r *reader) notices() []Notice {
	var notices []Notice
	for _, o := range Table() {
		v, ok := r.values[o.key()]
		switch {
		case !ok:
		case o.Flag == "socket-timeout":
			notices = append(notices, Notice{Message: "option is deprecated", Option: v.from, Reason: "it is called --message-timeout now"})
		case o.NoEffect == "" || (o.Kind == Toggle && onOff(v.text) == o.Default):
		default:
			notices = append(notices, Notice{Message: "option has no effect", Option: v.from, Reason: o.NoEffect})
		}
	}
	return slices.Clip(notices)
}
