package npm

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// A request is for a document or an archive of a registry.
type request struct {
	address  string
	accept   string
	registry string // whose login is used at its host
	// known is the entity tag of what is in the cache.
	known string
	// most is how many bytes the answer may have, and mostAll those of all that count in spent, which are what.
	most, mostAll int64
	spent         *atomic.Int64
	what          string
	// packed tells that the answer is compressed already.
	packed bool
}

const (
	mostRedirects = 5
	agent         = "phxworker (npm without npm)"
)

// errUnchanged says that what is in the cache is still so.
var errUnchanged = errors.New("it has not changed")

// get sends a request when it is its turn, and has read handle the answer, again after a while if that failed for a
// reason that passes. The error is an [*Error] without a package, errUnchanged, or why ctx ended.
func (c *Client) get(ctx context.Context, q request, read func(header http.Header, body io.Reader) error) error {
	for try := 0; ; try++ {
		err := c.once(ctx, q, read)
		passing, passes := errors.AsType[*fleeting](err)
		if !passes || try >= c.settings.retries || ctx.Err() != nil {
			if err != nil && ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		select {
		case <-time.After(min(max(c.settings.retryWait<<try, passing.after), c.settings.retryLimit)):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// A fleeting error may not be there the next time.
type fleeting struct {
	error

	after time.Duration // when the server asks to try again
}

func (f *fleeting) Unwrap() error { return f.error }

// once sends a request, and follows where it is redirected to.
func (c *Client) once(ctx context.Context, q request, read func(http.Header, io.Reader) error) error {
	if err := c.turns.Acquire(ctx, 1); err != nil {
		return context.Cause(ctx)
	}
	defer c.turns.Release(1)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	home, err := url.Parse(q.registry)
	if err != nil {
		return misconfigured("the address of a registry cannot be read")
	}
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, q.address, nil)
	if err != nil {
		return &Error{Kind: Untrusted, Reason: "the registry names an address that is none"}
	}
	r.Header.Set("User-Agent", agent)
	r.Header.Set("Accept", q.accept)
	if q.packed {
		r.Header.Set("Accept-Encoding", "identity")
	}
	if q.known != "" {
		r.Header.Set("If-None-Match", q.known)
	}
	web := &http.Client{Transport: c.transport, CheckRedirect: func(next *http.Request, before []*http.Request) error {
		if len(before) > mostRedirects {
			return &Error{Kind: Untrusted, Reason: fmt.Sprintf("%s redirects more than %d times", home.Host, mostRedirects)}
		}
		return c.admit(next, home)
	}}
	if err := c.admit(r, home); err != nil {
		return err
	}
	answer, err := web.Do(r)
	if err != nil {
		return c.failure(ctx, err, r.URL, home)
	}
	defer answer.Body.Close()
	if err := status(answer, answer.Request.URL); err != nil {
		return err
	}
	if answer.ContentLength > q.most {
		return tooLong(q.most)
	}
	patience := time.AfterFunc(c.settings.stall, func() { cancel(errStalled) })
	defer patience.Stop()
	body := &bodyReader{r: answer.Body, q: q, left: q.most, more: func() { patience.Reset(c.settings.stall) }}
	err = read(answer.Header, body)
	if body.failed != nil {
		if errors.Is(context.Cause(ctx), errStalled) {
			body.failed = errStalled
		}
		return &fleeting{error: unreachable(answer.Request.URL, body.failed)}
	}
	return err
}

// admit refuses what a registry must not have asked for, and introduces us where a login is for.
func (c *Client) admit(r *http.Request, home *url.URL) error {
	r.Header.Del("Authorization")
	r.Header.Del("Referer")
	own := c.settings.loginFor(r.URL)
	if r.URL.Host == home.Host && own.authorization == "" {
		own = c.settings.loginFor(home)
	}
	if own.authorization != "" {
		r.Header.Set("Authorization", own.authorization)
	}
	return c.mayAsk(r.URL, home)
}

// mayAsk refuses what a registry must not have asked for.
func (c *Client) mayAsk(at, home *url.URL) error {
	switch {
	case at.Scheme != "https" && at.Scheme != "http", at.Host == "":
		return &Error{Kind: Untrusted, Reason: home.Host + " names an address that is not of the web"}
	case at.Scheme == "http" && home.Scheme == "https":
		return &Error{Kind: Untrusted, Reason: home.Host + " is asked over TLS, and sends to " + at.Host + " without"}
	case at.User != nil:
		return &Error{Kind: Untrusted, Reason: home.Host + " names an address with a password in it"}
	}
	return nil
}

// failure is why there is no answer.
func (c *Client) failure(ctx context.Context, err error, at, home *url.URL) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok { // its text has the whole address
		if to, parsed := url.Parse(wrapped.URL); parsed == nil {
			at = to
		}
		err = wrapped.Err
	}
	own, known := errors.AsType[*Error](err)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case known:
		return own
	case errors.Is(err, errNotPublic):
		return &Error{Kind: Untrusted, Reason: home.Host + " sends to " + clip(at.Host) + ": " + errNotPublic.Error(), Err: err}
	}
	return &fleeting{error: unreachable(at, err)}
}

func unreachable(at *url.URL, err error) *Error {
	return &Error{Kind: Unreachable, Reason: "the registry " + at.Host + " cannot be reached from this worker: " + oneLine(err), Err: err}
}

// status makes an error of an answer that is none.
func status(answer *http.Response, at *url.URL) error {
	code := answer.StatusCode
	said := at.Host + " says " + strconv.Itoa(code)
	switch {
	case code == http.StatusOK:
		return nil
	case code == http.StatusNotModified:
		return errUnchanged
	case code == http.StatusUnauthorized:
		return &Error{Kind: Unauthorized, Reason: "the registry " + at.Host + " wants other credentials: see //" + at.Host + "/:_authToken in the .npmrc"}
	case code == http.StatusForbidden:
		return &Error{Kind: Refused, Reason: "the registry refuses to give this package out: " + said}
	case code == http.StatusNotFound || code == http.StatusGone || code == http.StatusUnavailableForLegalReasons:
		return &Error{Kind: NotFound, Reason: "the registry knows no such package or version, or may not give it out: " + said}
	case code >= 500 || code == http.StatusTooManyRequests || code == http.StatusRequestTimeout:
		seconds, _ := strconv.Atoi(answer.Header.Get("Retry-After"))
		after := time.Duration(min(max(seconds, 0), 3600)) * time.Second
		return &fleeting{error: &Error{Kind: Unreachable, Reason: "the registry " + at.Host + " is ill: " + said}, after: after}
	}
	return &Error{Kind: Unknown, Reason: "the registry's answer is not understood: " + said}
}

var errStalled = errors.New("nothing came any more")

// A bodyReader reads no more than a request may get, and remembers why the network failed.
type bodyReader struct {
	r      io.Reader
	q      request
	left   int64
	more   func() // is called when something came
	failed error
}

func (b *bodyReader) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if n > 0 {
		b.more()
	}
	if err != nil && !errors.Is(err, io.EOF) {
		b.failed = err
	}
	if b.left -= int64(n); b.left < 0 {
		return 0, tooLong(b.q.most)
	}
	if b.q.spent.Add(int64(n)) > b.q.mostAll {
		return 0, &Error{Kind: Untrusted, Reason: fmt.Sprintf("its %s are over %d MB in all", b.q.what, b.q.mostAll>>20)}
	}
	return n, err
}

func tooLong(limit int64) error {
	return &Error{Kind: Untrusted, Reason: fmt.Sprintf("the registry's answer is over %d MB", limit>>20)}
}

// addressOf is where a registry has the metadata of a package.
func addressOf(registry, name string) string {
	return registry + strings.ReplaceAll(name, "/", "%2f") // a name has no other signs that mean something there
}
