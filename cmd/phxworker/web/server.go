package web

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"os"
	"time"

	"github.com/phxworker/phxworker"
)

// Config is what a [Server] works with. The zero values are the defaults.
type Config struct {
	// Metrics serves /metrics, such as the handler of package metrics. Defaults to none, which
	// is a 404.
	Metrics http.Handler
	// Token is what controls ask for. Defaults to none, which is that they are off.
	Token string
	// ControlsOff says to whoever asks for a control that is off how to switch them on. Defaults
	// to what to do in the program.
	ControlsOff string
	// OpenClaim leaves POST /claim open to whoever may read, for a worker that lives by it
	// ([phxworker.Claim], Manual). Defaults to asking for the token.
	OpenClaim bool
	// Host is what the worker was told to listen at, by which requests may name it.
	// Defaults to none.
	Host string
	// ServerPage is the address of a page of the server that the worker works for, such as that of the mock server; the status
	// page links to it. Defaults to none.
	ServerPage string
	// Version and Commit are the program's. They default to the version of this module, and
	// none.
	Version, Commit string
	// Fences returns what is known by now of the kernel's fences around the engine's processes. Each
	// status asks for it, so it must not wait. Defaults to none: the engine has no such processes.
	Fences func() []Fence
	// Logger takes each control with the address that it came from, and the
	// complaints of the HTTP server at debug. Defaults to none.
	Logger *slog.Logger
}

// Server answers HTTP requests about one worker. Its methods may be called
// concurrently.
type Server struct {
	cfg      Config
	worker   *phxworker.Worker
	log      *slog.Logger
	started  time.Time
	hostname string
	page     *page
	history  history
	origins  *http.CrossOriginProtection
	handler  http.Handler
}

var _ http.Handler = (*Server)(nil)

// New returns a server for the worker that listens nowhere yet: it is a handler for a server
// of the program's own, or listens by [Server.Serve]. Under a path, it needs
// [http.StripPrefix].
func New(worker *phxworker.Worker, cfg Config) *Server {
	if cfg.Version == "" {
		cfg.Version = phxworker.Version()
	}
	if cfg.ControlsOff == "" {
		cfg.ControlsOff = "set web.Config.Token in the program"
	}
	s := &Server{
		cfg: cfg, worker: worker, log: cfg.Logger, started: time.Now(),
		page: newPage(), origins: http.NewCrossOriginProtection(),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.hostname, _ = os.Hostname() // a machine without a name has none to show
	s.handler = s.routes()
	return s
}

// ServeHTTP implements [http.Handler].
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	header := w.Header()
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	s.handler.ServeHTTP(w, r)
}

func (s *Server) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /livez", s.livez)
	mux.HandleFunc("GET /startupz", s.startupz)
	mux.HandleFunc("GET /readyz", s.readyz)
	mux.HandleFunc("GET /status", s.open(s.serveStatus))
	mux.HandleFunc("GET /{$}", s.open(s.servePage))
	if s.cfg.Metrics != nil {
		mux.Handle("GET /metrics", s.cfg.Metrics)
	}
	mux.HandleFunc("POST /pause", s.controlled(s.pause))
	mux.HandleFunc("POST /resume", s.controlled(s.resume))
	mux.HandleFunc("POST /drain", s.controlled(s.drain))
	mux.HandleFunc("PUT /groups/{name}", s.controlled(s.resize))
	mux.HandleFunc("POST /runs/{id}/cancel", s.controlled(s.cancel))
	mux.HandleFunc("POST /runs/{id}/notify", s.controlled(s.notify))
	if s.cfg.OpenClaim {
		mux.HandleFunc("POST /claim", s.open(s.claim))
	} else {
		mux.HandleFunc("POST /claim", s.controlled(s.claim))
	}
	return mux
}

// Bounds of a request. The longest wait of a handler is claimPatience, and its
// answer must fit in after that.
const (
	maxBody       = 4 << 10
	maxHeader     = 16 << 10
	headerTimeout = 5 * time.Second
	readTimeout   = 10 * time.Second
	claimPatience = 20 * time.Second
	writeTimeout  = readTimeout + claimPatience + 10*time.Second
	idleTimeout   = time.Minute
	// shutdownGrace is how long answers under way may take once the worker has
	// stopped.
	shutdownGrace = 2 * time.Second
)

// Serve answers requests until ctx ends, then lets those under way finish for a
// moment. It closes the listener, and returns when all connections are closed.
// The error is the listener's.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	server := &http.Server{
		Handler:           s,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: readTimeout,
		WriteTimeout: writeTimeout, IdleTimeout: idleTimeout, MaxHeaderBytes: maxHeader,
		ErrorLog: slog.NewLogLogger(s.log.Handler(), slog.LevelDebug),
	}
	watching, unwatch := context.WithCancel(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		s.Watch(watching)
	}()
	defer func() {
		unwatch()
		<-watched
	}()
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()
	select {
	case err := <-served:
		_ = server.Close()
		return err
	case <-ctx.Done():
	}
	grace, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownGrace)
	defer cancel()
	if err := server.Shutdown(grace); err != nil {
		_ = server.Close()
	}
	<-served //nolint:errcheck // says that it was closed
	return nil
}
