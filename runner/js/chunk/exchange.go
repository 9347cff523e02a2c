package chunk

import (
	"bytes"
	"cmp"
	"compress/flate"
	"compress/gzip"
	"compress/zlib"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/andybalholm/brotli"

	"github.com/phxworker/phxworker/runner/egress"
)

// Exchange is one request of a package and what it wants of the connection.
type Exchange struct {
	Method, URL string
	Headers     [][2]string
	// Body is in base64; HasBody tells an empty one from none.
	Body    string
	HasBody bool
	TLS     TLS
	// HeadersTimeout and BodyTimeout are in milliseconds, 0 for none.
	HeadersTimeout, BodyTimeout int
	// Decompress undoes the content encoding.
	Decompress bool
	// Call is what the worker holds of the exchange. Required; who called frees it.
	Call *egress.Call `json:"-"`
}

// TLS is what a package says of the connection, in Node's words; certificates and keys are PEM.
type TLS struct {
	CA                    []string
	Cert, Key, Servername string
	RejectUnauthorized    *bool
}

// Answer is what came back: an error, or the response.
type Answer struct {
	Error      map[string]any `json:"error,omitempty"`
	StatusCode int            `json:"statusCode"`
	StatusText string         `json:"statusText"`
	// Headers are the raw ones: name and value in turn, names in lower case.
	Headers []string `json:"headers"`
	// Body is in base64.
	Body string `json:"body"`
}

// Client makes exchanges of one run. It may be used concurrently; Close ends its connections.
type Client struct {
	// Traffic makes the connections. Required.
	Traffic *egress.Traffic

	mu         sync.Mutex
	transports map[string]*http.Transport // by what a package says of TLS
}

var (
	errHeadersTimeout = errors.New("no headers in time")
	errBodyTimeout    = errors.New("no body in time")
)

// mostTransports bounds the connections that are kept apart because a package says other things of TLS.
const mostTransports = 8

// Do makes an exchange, when it is its turn. It never follows a redirect.
func (c *Client) Do(ctx context.Context, x Exchange) Answer {
	answer, err := c.do(ctx, x)
	if err != nil {
		return Failed(err)
	}
	return answer
}

// Failed returns the answer of an exchange that came to an error.
func Failed(err error) Answer { return Answer{Error: inNodesWords(err)} }

func (c *Client) do(parent context.Context, x Exchange) (_ Answer, err error) {
	ctx, cancel := context.WithCancelCause(parent)
	defer cancel(nil)
	body, err := base64.StdEncoding.DecodeString(x.Body)
	if err != nil {
		return Answer{}, err
	}
	turn, err := c.Traffic.Await(ctx, cancel)
	if err != nil {
		return Answer{}, err
	}
	defer func() { turn.Free(err) }()
	var reader io.Reader
	if x.HasBody {
		reader = bytes.NewReader(body)
	}
	request, err := http.NewRequestWithContext(ctx, x.Method, x.URL, reader)
	if err != nil {
		return Answer{}, err
	}
	if x.HasBody { // after its length was taken
		request.Body, request.GetBody = io.NopCloser(turn.Sent(reader)), nil
	}
	request.Header["User-Agent"] = nil                                                                                 // undici sends none
	request.Header.Set("Connection", map[bool]string{true: "close", false: "keep-alive"}[x.Method == http.MethodHead]) // as undici says
	switch x.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		if !x.HasBody {
			request.Body = io.NopCloser(strings.NewReader("")) // without any, the transport tries a second time by itself
		}
	}
	for _, header := range x.Headers {
		switch strings.ToLower(header[0]) {
		case "host":
			request.Host = header[1]
		case "content-length", "connection", "transfer-encoding": // the transport's
		case "user-agent":
			request.Header.Set(header[0], header[1])
		default:
			request.Header.Add(header[0], header[1])
		}
	}
	transport, err := c.transport(x.TLS)
	if err != nil {
		return Answer{}, err
	}
	waiting := alarm(cancel, x.HeadersTimeout, errHeadersTimeout)
	var used *counted
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { used = countedOf(info.Conn) }})
	response, err := transport.RoundTrip(request.WithContext(traced))
	waiting.Stop()
	if err != nil {
		return Answer{}, because(ctx, &lost{err, used})
	}
	defer func() { _ = response.Body.Close() }()
	defer alarm(cancel, x.BodyTimeout, errBodyTimeout).Stop()
	source, err := decompressed(response, x.Decompress)
	if err != nil {
		return Answer{}, because(ctx, err)
	}
	data, err := x.Call.ReadAll(ctx, turn.Body(source))
	if err != nil {
		return Answer{}, because(ctx, err)
	}
	_, text, _ := strings.Cut(response.Status, " ")
	answer := Answer{StatusCode: response.StatusCode, StatusText: text, Body: base64.StdEncoding.EncodeToString(data)}
	for name, values := range response.Header {
		for _, value := range values {
			answer.Headers = append(answer.Headers, strings.ToLower(name), value)
		}
	}
	return answer, nil
}

func alarm(cancel context.CancelCauseFunc, milliseconds int, cause error) *time.Timer {
	if milliseconds <= 0 {
		milliseconds = 1 << 40
	}
	return time.AfterFunc(time.Duration(min(milliseconds, 1<<40))*time.Millisecond, func() { cancel(cause) })
}

// because returns why a request was ended, if it was, and else the error.
func because(ctx context.Context, err error) error { return cmp.Or(context.Cause(ctx), err) }

func decompressed(response *http.Response, wanted bool) (io.Reader, error) {
	if !wanted {
		return response.Body, nil
	}
	var source io.Reader
	var err error
	switch strings.ToLower(response.Header.Get("Content-Encoding")) {
	case "gzip", "x-gzip":
		source, err = gzip.NewReader(response.Body)
	case "deflate":
		source, err = inflate(response.Body)
	case "br":
		source = brotli.NewReader(response.Body)
	default:
		return response.Body, nil
	}
	response.Header.Del("Content-Encoding")
	response.Header.Del("Content-Length")
	return source, err
}

// inflate reads deflate with and without the header of zlib, since servers send both.
func inflate(source io.Reader) (io.Reader, error) {
	start := make([]byte, 1)
	if _, err := io.ReadFull(source, start); err != nil {
		return nil, err
	}
	whole := io.MultiReader(bytes.NewReader(start), source)
	if start[0]&0x0f == 8 {
		return zlib.NewReader(whole)
	}
	return flate.NewReader(whole), nil
}

func (c *Client) transport(options TLS) (*http.Transport, error) {
	reject := options.RejectUnauthorized == nil || *options.RejectUnauthorized
	parts := append([]string{options.Cert, options.Key, options.Servername, map[bool]string{true: "1"}[reject]}, options.CA...)
	key := strings.Join(parts, "\x00")
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.transports[key]; known != nil {
		return known, nil
	}
	if len(c.transports) >= mostTransports {
		c.closeLocked()
	}
	config := &tls.Config{ServerName: options.Servername, InsecureSkipVerify: !reject} //nolint:gosec // what the package asks for
	if len(options.CA) > 0 {
		config.RootCAs = x509.NewCertPool()
		for _, one := range options.CA {
			config.RootCAs.AppendCertsFromPEM([]byte(one))
		}
	}
	if options.Cert != "" {
		pair, err := tls.X509KeyPair([]byte(options.Cert), []byte(options.Key))
		if err != nil {
			return nil, err
		}
		config.Certificates = []tls.Certificate{pair}
	}
	transport := &http.Transport{
		DialContext: func(ctx context.Context, network, address string) (net.Conn, error) {
			conn, err := c.Traffic.Dial(ctx, network, address)
			if err != nil {
				return nil, err
			}
			return &counted{Conn: conn}, nil
		},
		TLSClientConfig: config, DisableCompression: true,
		MaxIdleConns: 8, MaxIdleConnsPerHost: 4, IdleConnTimeout: 4 * time.Second, TLSHandshakeTimeout: 10 * time.Second,
	}
	if c.transports == nil {
		c.transports = make(map[string]*http.Transport)
	}
	c.transports[key] = transport
	return transport, nil
}

// counted is a connection that knows how much went over it.
type counted struct {
	net.Conn

	read, written atomic.Int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	c.read.Add(int64(n))
	return n, err
}

func (c *counted) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.written.Add(int64(n))
	return n, err
}

// countedOf returns the connection below TLS.
func countedOf(conn net.Conn) *counted {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	c, _ := conn.(*counted)
	return c
}

// facts are what undici tells of a socket.
func (c *counted) facts() map[string]any {
	facts := map[string]any{"bytesWritten": c.written.Load(), "bytesRead": c.read.Load()}
	local, _ := c.LocalAddr().(*net.TCPAddr)
	remote, _ := c.RemoteAddr().(*net.TCPAddr)
	if local != nil && remote != nil {
		facts["localAddress"], facts["localPort"] = local.IP.String(), local.Port
		facts["remoteAddress"], facts["remotePort"], facts["remoteFamily"] = remote.IP.String(), remote.Port, "IPv4"
		if remote.IP.To4() == nil {
			facts["remoteFamily"] = "IPv6"
		}
	}
	return facts
}

// lost is an error on a connection, nil if there was none.
type lost struct {
	error
	conn *counted
}

func (l *lost) Unwrap() error { return l.error }

// Close ends the connections that are idle. No exchange may be under way.
func (c *Client) Close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closeLocked()
}

func (c *Client) closeLocked() {
	for _, transport := range c.transports {
		transport.CloseIdleConnections()
	}
	clear(c.transports)
}

// inNodesWords returns the members of the error that a package would get in Node.
func inNodesWords(err error) map[string]any {
	var refused *egress.Error
	var resolve *net.DNSError
	var dial *net.OpError
	var unknown x509.UnknownAuthorityError
	var hostname x509.HostnameError
	var invalid x509.CertificateInvalidError
	switch {
	case errors.Is(err, errHeadersTimeout):
		return map[string]any{"name": "HeadersTimeoutError", "code": "UND_ERR_HEADERS_TIMEOUT", "message": "Headers Timeout Error"}
	case errors.Is(err, errBodyTimeout):
		return map[string]any{"name": "BodyTimeoutError", "code": "UND_ERR_BODY_TIMEOUT", "message": "Body Timeout Error"}
	case errors.As(err, &refused):
		return refused.Members()
	case errors.As(err, &resolve):
		return map[string]any{"message": "getaddrinfo ENOTFOUND " + resolve.Name, "errno": -3008, "code": "ENOTFOUND", "syscall": "getaddrinfo", "hostname": resolve.Name}
	case errors.As(err, &dial) && dial.Op == "dial" && errors.Is(err, syscall.ECONNREFUSED):
		members := map[string]any{"message": "connect ECONNREFUSED " + dial.Addr.String(), "errno": -111, "code": "ECONNREFUSED", "syscall": "connect"}
		if address, ok := dial.Addr.(*net.TCPAddr); ok {
			members["address"], members["port"] = address.IP.String(), address.Port
		}
		return members
	case errors.As(err, &unknown):
		return map[string]any{"message": "unable to verify the first certificate", "code": "UNABLE_TO_VERIFY_LEAF_SIGNATURE"}
	case errors.As(err, &hostname):
		return map[string]any{"message": "Hostname/IP does not match certificate's altnames: " + hostname.Error(), "code": "ERR_TLS_CERT_ALTNAME_INVALID"}
	case errors.As(err, &invalid):
		return map[string]any{"message": "certificate has expired", "code": "CERT_HAS_EXPIRED"}
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET):
		members := map[string]any{"name": "SocketError", "message": "other side closed", "code": "UND_ERR_SOCKET"}
		if lost, ok := errors.AsType[*lost](err); ok && lost.conn != nil {
			members["socket"] = lost.conn.facts()
		}
		return members
	}
	return map[string]any{"message": err.Error()}
}
