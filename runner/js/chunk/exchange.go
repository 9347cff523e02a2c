package chunk

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"io"
	"maps"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
	"unsafe"

	"github.com/phxworker/phxworker/runner/egress"
)

// Exchange is one request of a package and what it wants of the connection.
type Exchange struct {
	// Op is empty for a request, or one of the operations on the stream that a request has opened; see stream.go.
	Op string
	// Stream is a number by which the package knows the bodies; 0 for a request whose answer has the whole body.
	Stream      int
	Method, URL string
	Headers     [][2]string
	// Body is in base64, or is a Text; an empty one is as none. Follows tells that there is more of it
	// to come by the stream, Length of how many bytes: -1 where that is not known.
	Body, Text string
	Follows    bool
	Length     int64
	// Close has the connection closed after the answer, and says so to the server.
	Close bool
	TLS   TLS
	// HeadersTimeout and BodyTimeout are in milliseconds, 0 for none.
	HeadersTimeout, BodyTimeout int
	// Decompress undoes the content encoding, of errors only with DecompressErrors.
	Decompress, DecompressErrors bool
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
	// Headers are the raw ones: name and value in turn, names in lower case, each byte of a value a character, as in Node.
	Headers []string `json:"headers"`
	// Body is in base64, unless there is a Text.
	Body string  `json:"body"`
	Text *string `json:"text,omitempty"`
	// Done tells that no more comes by the stream.
	Done bool `json:"done"`
}

// Client makes the exchanges of one run. It may be used concurrently; Close ends its connections.
type Client struct {
	// Traffic makes the connections. Required.
	Traffic *egress.Traffic

	mu         sync.Mutex
	transports map[string]*http.Transport // by what a package says of TLS
	streams    map[int]*stream            // by the numbers that the package gave them
	over       map[int]bool               // by the same, which streams are over
}

// mostHeaders bounds the headers of a response, in bytes, as Node does.
const mostHeaders = 16 << 10

var (
	errHeadersTimeout = errors.New("no headers in time")
	errBodyTimeout    = errors.New("no body in time")
)

// mostTransports bounds the connections that are kept apart because a package says other things of TLS.
const mostTransports = 8

// Do makes an exchange, when it is its turn, or goes on with one. It never follows a redirect. A context has to be the same for all of a stream.
func (c *Client) Do(ctx context.Context, x Exchange) Answer {
	do := c.do
	if x.Op != "" {
		do = c.onStream
	}
	answer, err := do(ctx, x)
	if err != nil {
		return Failed(err)
	}
	return answer
}

// Failed returns the answer of an exchange that came to an error.
func Failed(err error) Answer { return Answer{Error: inNodesWords(err)} }

func (c *Client) do(parent context.Context, x Exchange) (Answer, error) {
	s, err := c.stream(parent, x.Stream)
	if err != nil {
		return Answer{}, err
	}
	var answer Answer
	turn, err := c.Traffic.Await(s.ctx, s.cancel)
	if err == nil {
		s.keep(turn)
		answer, err = c.request(s, turn, x)
		x.Call.Answer(turn)
	}
	if err != nil || answer.Done {
		c.forget(x.Stream, s, err)
	}
	return answer, err
}

func (c *Client) request(s *stream, turn *egress.Turn, x Exchange) (Answer, error) {
	request, err := newRequest(s, turn, x)
	if err != nil {
		return Answer{}, err
	}
	transport, err := c.transport(x.TLS)
	if err != nil {
		return Answer{}, err
	}
	waiting := alarm(s.cancel, x.HeadersTimeout, errHeadersTimeout)
	var used *counted
	traced := httptrace.WithClientTrace(s.ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) { used = countedOf(info.Conn) }})
	response, err := transport.RoundTrip(request.WithContext(traced)) //nolint:bodyclose // the stream does
	waiting.Stop()
	if err != nil {
		return Answer{}, because(s.ctx, &lost{err, used})
	}
	return s.respond(response, turn, used, x)
}

// newRequest returns what goes over the wire.
func newRequest(s *stream, turn *egress.Turn, x Exchange) (*http.Request, error) {
	body, err := x.bytes()
	if err != nil {
		return nil, err
	}
	var reader io.Reader
	switch {
	case x.Follows:
		reader = turn.Written(s.in)
	case len(body) > 0: // of an empty one, the transport says the length where its method expects one
		reader = bytes.NewReader(body)
	}
	origin, target := cutTarget(x.URL)
	request, err := http.NewRequestWithContext(s.ctx, x.Method, origin, reader)
	if err != nil {
		return nil, err
	}
	setTarget(request.URL, bytesOf(target))
	if reader != nil { // after its length was taken
		request.Body, request.GetBody = sent{turn.Sent(reader), request.Body}, nil
	}
	if x.Follows {
		request.ContentLength = x.Length
	}
	request.Close = x.Close
	request.Header["User-Agent"] = nil // undici sends none
	if !x.Close {
		request.Header.Set("Connection", "keep-alive")
	}
	switch x.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		if reader == nil {
			// Without any, the transport tries a second time by itself. As it is, it would look for a byte for 200 ms, and
			// send chunks after that.
			request.Body, request.TransferEncoding = io.NopCloser(strings.NewReader("")), []string{"identity"}
		}
	}
	for _, header := range x.Headers {
		switch strings.ToLower(header[0]) {
		case "host":
			request.Host = header[1]
		case "content-length", "connection", "transfer-encoding": // the transport's
		case "user-agent":
			request.Header.Set(header[0], bytesOf(header[1]))
		default:
			request.Header.Add(header[0], bytesOf(header[1]))
		}
	}
	return request, nil
}

// cutTarget divides a URL into the origin and what is asked of it.
func cutTarget(url string) (origin, target string) {
	_, after, _ := strings.Cut(url, "://")
	i := strings.IndexAny(after, "/?#")
	if i < 0 {
		return url, "/"
	}
	at := len(url) - len(after) + i
	return url[:at], url[at:]
}

// setTarget has a request ask for what the package said, byte by byte: [url.Parse] refuses some of it, and words some in
// its own way.
func setTarget(u *url.URL, target string) {
	if !strings.HasPrefix(target, "/") {
		target = "/" + target
	}
	if strings.HasPrefix(target, "//") { // which in Opaque would be a host
		u.Path, u.RawPath = target, target
		return
	}
	u.Opaque = target
}

// charactersOf returns a text with a character for each byte.
func charactersOf(bytes string) string {
	characters := make([]rune, len(bytes))
	for i := range len(bytes) {
		characters[i] = rune(bytes[i])
	}
	return string(characters)
}

// bytesOf undoes that; clients refuse other characters before.
func bytesOf(characters string) string {
	bytes := make([]byte, 0, len(characters))
	for _, one := range characters {
		if one > 0xff {
			return characters
		}
		bytes = append(bytes, byte(one)) //nolint:gosec // see above
	}
	return string(bytes)
}

// sent is the body of a request, counted.
type sent struct {
	io.Reader
	io.Closer
}

// bytes are those of the body.
func (x *Exchange) bytes() ([]byte, error) {
	if x.Text != "" {
		return []byte(x.Text), nil
	}
	return base64.StdEncoding.DecodeString(x.Body)
}

// respond answers with the head of a response, and leaves its body to the stream if there is one.
func (s *stream) respond(response *http.Response, turn *egress.Turn, used *counted, x Exchange) (Answer, error) {
	var body io.Reader = &wire{response.Body, used}
	withoutAdded(response.Header)
	encoding := response.Header.Get("Content-Encoding")
	if x.Decompress && unpacks(encoding) && (x.DecompressErrors || response.StatusCode < http.StatusBadRequest) {
		packed := body
		response.Header.Del("Content-Encoding")
		response.Header.Del("Content-Length")
		body = &lazy{open: func() (io.Reader, error) { return unpacker(encoding, packed) }}
	}
	s.idle = x.BodyTimeout
	s.begin(turn.Body(body), response.Body)
	_, text, _ := strings.Cut(response.Status, " ")
	answer := Answer{StatusCode: response.StatusCode, StatusText: text, Done: response.ContentLength == 0 || response.Body == http.NoBody}
	for _, name := range slices.Sorted(maps.Keys(response.Header)) {
		for _, value := range response.Header[name] {
			answer.Headers = append(answer.Headers, strings.ToLower(name), charactersOf(value))
		}
	}
	if response.Close && response.Header.Get("Connection") == "" {
		answer.Headers = append(answer.Headers, "connection", "close")
	}
	for _, encoding := range response.TransferEncoding {
		answer.Headers = append(answer.Headers, "transfer-encoding", encoding)
	}
	if x.Stream != 0 {
		return answer, nil
	}
	all, err := s.readAll(x.Call)
	answer.Body, answer.Done = base64.StdEncoding.EncodeToString(all), true
	return answer, err
}

// noCache is where in memory the text lies that Go's client adds as Cache-Control to a response that says Pragma: no-cache. What a
// server has said itself lies elsewhere.
var noCache = sync.OnceValue(func() *byte {
	response, err := http.ReadResponse(bufio.NewReader(strings.NewReader("HTTP/1.1 200 OK\r\nPragma: no-cache\r\n\r\n")), nil)
	if err != nil {
		return nil
	}
	defer response.Body.Close()
	return unsafe.StringData(response.Header.Get("Cache-Control")) //nolint:gosec // compared, and not read
})

// withoutAdded removes what no server has said.
func withoutAdded(header http.Header) {
	if said := header["Cache-Control"]; len(said) == 1 && header["Pragma"] != nil && unsafe.StringData(said[0]) == noCache() { //nolint:gosec // see above
		delete(header, "Cache-Control")
	}
}

func alarm(cancel context.CancelCauseFunc, milliseconds int, cause error) *time.Timer {
	if milliseconds <= 0 {
		milliseconds = 1 << 40
	}
	return time.AfterFunc(time.Duration(min(milliseconds, 1<<40))*time.Millisecond, func() { cancel(cause) })
}

// because returns why a request was ended, if it was, and else the error.
func because(ctx context.Context, err error) error { return cmp.Or(context.Cause(ctx), err) }

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
			conn, err := c.Traffic.Dial(ctx, network, address, c.closeIdle)
			if err != nil {
				return nil, err
			}
			return &counted{Conn: conn}, nil
		},
		TLSClientConfig: config, DisableCompression: true, MaxResponseHeaderBytes: mostHeaders,
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

// wire is the body of a response as it came, whose errors are the connection's.
type wire struct {
	io.Reader

	conn *counted
}

func (w *wire) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &lost{err, w.conn}
	}
	return n, err
}

// Close ends the streams that are open and the connections. No exchange may be under way.
func (c *Client) Close() {
	c.endStreams()
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

// closeIdle closes the connections that no exchange uses.
func (c *Client) closeIdle() {
	c.mu.Lock()
	known := slices.Collect(maps.Values(c.transports))
	c.mu.Unlock()
	for _, transport := range known {
		transport.CloseIdleConnections()
	}
}

// inNodesWords returns the members of the error that a package would get in Node.
func inNodesWords(err error) map[string]any {
	var refused *egress.Error
	var resolve *net.DNSError
	var dial *net.OpError
	var packed *packError
	ofTLS := tlsInNodesWords(err)
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
	case strings.Contains(err.Error(), "server response headers exceeded"): // there is no type for it
		return map[string]any{"name": "HeadersOverflowError", "code": "UND_ERR_HEADERS_OVERFLOW", "message": "Headers Overflow Error"}
	case ofTLS != nil:
		return ofTLS
	case errors.As(err, &packed):
		return packed.inNodesWords()
	case errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, syscall.ECONNRESET), strings.Contains(err.Error(), "server closed idle connection"):
		members := map[string]any{"name": "SocketError", "message": "other side closed", "code": "UND_ERR_SOCKET"}
		if lost, ok := errors.AsType[*lost](err); ok && lost.conn != nil {
			members["socket"] = lost.conn.facts()
		}
		return members
	}
	if lost, ok := errors.AsType[*lost](err); ok && lost.conn != nil && dial == nil { // no network's: nobody understands the server
		words := lost.Error()
		if _, after, found := strings.Cut(words, "connection broken: "); found {
			words = after
		}
		return map[string]any{"name": "HTTPParserError", "message": "Response does not match the HTTP/1.1 protocol (" + words + ")"}
	}
	return map[string]any{"message": err.Error()}
}
