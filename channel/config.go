package channel

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// Config says how to reach a server. Only URL is required.
type Config struct {
	// URL is the endpoint as it is mounted in the Phoenix router, for example
	// wss://example.org/socket: without the /websocket that clients add. The
	// schemes http and https mean ws and wss. A query is kept.
	URL string
	// Params returns the parameters of the socket. It is called before every
	// dial, so tokens can be fresh; its context ends after HandshakeTimeout. An
	// error counts as a failed dial. Defaults to none.
	Params func(ctx context.Context) (url.Values, error)
	// Header is sent with the upgrade request. Defaults to none.
	Header http.Header
	// TLS is used for wss. Defaults to the system's certificate authorities.
	TLS *tls.Config
	// Proxy chooses the proxy of a dial. Defaults to http.ProxyFromEnvironment.
	Proxy func(*http.Request) (*url.URL, error)
	// NetDial makes the network connections, for tests and special networks.
	// Defaults to net.Dialer.
	NetDial func(ctx context.Context, network, addr string) (net.Conn, error)

	// HeartbeatInterval is the time between two heartbeats. The connection ends when an answer takes
	// longer than that, unless a message is coming in: the answer may be behind it. Phoenix drops a
	// client that was silent for 60 s. Defaults to 30 s.
	HeartbeatInterval time.Duration
	// HandshakeTimeout bounds a dial up to the end of the upgrade. Defaults to 15 s.
	HandshakeTimeout time.Duration
	// JoinTimeout bounds the wait for the reply to a join or a leave. A join waits on while a message
	// is coming in. Defaults to 10 s.
	JoinTimeout time.Duration
	// WriteTimeout bounds the writing of one message. A write that takes longer ends the
	// connection, perhaps after seven eighths of that time already. Defaults to 30 s.
	WriteTimeout time.Duration

	// ReadLimit is the size in bytes, after decompression, of the largest
	// message taken from the server. A larger one is read to its end and thrown
	// away; one of sixteen times that size, or of 1 GiB if that is more, ends
	// the connection. Defaults to 64 MiB; 1 TiB at most.
	ReadLimit int64
	// ReadLimits are lower limits for the answers to some events, by event; each is
	// 16 KiB at least. The limit of "" is for all other messages: answers to other
	// events and to joins, and what the server sends by itself. Defaults to none.
	ReadLimits map[string]int64
	// MaxFrame is the size in bytes, once encoded, of the largest message sent.
	// Defaults to 11,000,000, the limit that OpenFn Lightning sets.
	MaxFrame int
	// PushBuffer is how many messages of the server wait per topic for their
	// reader; those of all topics may have 16 MiB together. Defaults to 64.
	PushBuffer int
	// DisableCompression stops offering permessage-deflate. Compression is
	// offered by default; the server decides, and small messages are sent plain
	// in any case.
	DisableCompression bool

	// RetryRefused makes [Socket.Join] wait on when the server refuses the socket's
	// parameters ([DialError.Refused]), as it does after any other failed dial. Set it in
	// programs that nobody watches: a proxy may answer 403 while a server restarts, and a
	// secret may be changed on one side first. By default Join returns that error.
	RetryRefused bool
	// MinBackoff and MaxBackoff bound the waits between attempts to connect or
	// to join again: the n-th is random between zero and MinBackoff × 2ⁿ, but
	// never more than MaxBackoff. They default to 500 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// Logger receives what a person should know of. Tokens are never logged.
	// Defaults to none.
	Logger *slog.Logger

	// discardLimit is the size from which a message ends the connection. Tests set a smaller one.
	discardLimit int64
}

const (
	defaultReadLimit = 64 << 20
	maxReadLimit     = 1 << 40 // so that multiples of it do not overflow
)

// Validate returns the error with which [Open] would refuse the configuration.
func (c *Config) Validate() error {
	_, err := c.endpoint()
	return err
}

// withDefaults returns a copy with the defaults filled in.
func (c Config) withDefaults() Config {
	c.Header = c.Header.Clone()
	c.ReadLimits = maps.Clone(c.ReadLimits)
	fill(&c.HeartbeatInterval, 30*time.Second)
	fill(&c.HandshakeTimeout, 15*time.Second)
	fill(&c.JoinTimeout, 10*time.Second)
	fill(&c.WriteTimeout, 30*time.Second)
	fill(&c.ReadLimit, defaultReadLimit)
	c.ReadLimit = min(c.ReadLimit, maxReadLimit)
	fill(&c.discardLimit, 16*max(c.ReadLimit, defaultReadLimit))
	fill(&c.MaxFrame, 11_000_000)
	fill(&c.PushBuffer, 64)
	fill(&c.MinBackoff, 500*time.Millisecond)
	fill(&c.MaxBackoff, 30*time.Second)
	c.MaxBackoff = max(c.MinBackoff, c.MaxBackoff)
	if c.Params == nil {
		c.Params = func(context.Context) (url.Values, error) { return nil, nil }
	}
	if c.Proxy == nil {
		c.Proxy = http.ProxyFromEnvironment
	}
	if c.NetDial == nil {
		c.NetDial = new(net.Dialer).DialContext
	}
	if c.Logger == nil {
		c.Logger = slog.New(slog.DiscardHandler)
	}
	return c
}

// fill gives a field that is not positive its default.
func fill[N ~int | ~int64](field *N, value N) {
	if *field <= 0 {
		*field = value
	}
}

// endpoint returns the URL that is dialed, still without parameters.
func (c *Config) endpoint() (*url.URL, error) {
	u, err := url.Parse(c.URL)
	if err != nil {
		// The error of url.Parse quotes the whole URL, and that may hold a token.
		if parse, ok := errors.AsType[*url.Error](err); ok {
			err = parse.Err
		}
		return nil, fmt.Errorf("channel: the URL cannot be read: %w", err)
	}
	switch u.Scheme {
	case "http":
		u.Scheme = "ws"
	case "https":
		u.Scheme = "wss"
	case "ws", "wss":
	default:
		return nil, fmt.Errorf("channel: the URL has the scheme %q; write ws:// or wss:// before the host", u.Scheme)
	}
	if u.Host == "" {
		return nil, errors.New("channel: the URL has no host; write it behind ws:// or wss://")
	}
	if u.User != nil {
		return nil, errors.New("channel: the URL has a user name, which websockets do not take; use Config.Params or Config.Header")
	}
	u.Fragment = ""
	u.Path = strings.TrimRight(u.Path, "/") + "/websocket"
	u.RawPath = ""
	return u, nil
}
