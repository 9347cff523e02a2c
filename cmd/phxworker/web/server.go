package web

import (
	"log/slog"
	"net/http"
	"os"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/internal/fence"
)

// Config is what a [Server] works with. Worker is required; the zero values of
// all others are their defaults.
type Config struct {
	Worker *phxworker.Worker
	// Metrics serves /metrics. Defaults to none, which is a 404.
	Metrics http.Handler
	// Token is what controls ask for. Defaults to none, which is that they are off.
	Token string
	// Host is what the worker was told to listen at, by which requests may name it.
	// Defaults to none.
	Host string
	// Manual says that the worker has no loop, so that POST /claim is open.
	Manual bool
	// Upstream is the address that the worker connects to, for the status. It
	// must have no token in it.
	Upstream string
	// Version and Commit are the binary's.
	Version, Commit string
	// Fences returns what is known by now of the kernel's fences around the engine's processes. Each
	// status asks for it, so it must not wait. Defaults to none: the engine has no such processes.
	Fences func() []fence.State
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
	origins  *http.CrossOriginProtection
	handler  http.Handler
}

var _ http.Handler = (*Server)(nil)

// New returns a server that listens nowhere yet.
func New(cfg Config) *Server {
	s := &Server{
		cfg: cfg, worker: cfg.Worker, log: cfg.Logger, started: time.Now(),
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
	if s.cfg.Manual {
		mux.HandleFunc("POST /claim", s.open(s.claim))
	} else {
		mux.HandleFunc("POST /claim", s.controlled(s.claim))
	}
	return mux
}
