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

	"github.com/cenkalti/backoff/v4"
)

// A request is for a document or an archive of a registry.
type request struct {
	address string
	accept  string
	// known is the entity tag of what is in the cache.
	known string
	// login is used at the host of home, the registry's.
	home *url.URL
	// plainTransfer forbids to compress what is compressed already.
	plainTransfer bool
}

const (
	mostRedirects = 5
	agent         = "phxworker (npm without npm)"
)

// errUnchanged says that what is in the cache is still so.
var errUnchanged = errors.New("it has not changed")

// get sends a request and has read handle the answer, again after a while if that failed for a
// reason that passes. The error is an [*Error] without a package, errUnchanged, or why ctx ended.
func (c *Client) get(ctx context.Context, q request, read func(header http.Header, body io.Reader) error) error {
	wait := backoff.NewExponentialBackOff()
	wait.InitialInterval, wait.MaxInterval = c.settings.retryWait, max(c.settings.retryLimit, c.settings.retryWait)
	wait.MaxElapsedTime = 0
	wait.Reset()
	for try := 0; ; try++ {
		err := c.once(ctx, q, read)
		again, after := passes(err)
		if err == nil || !again || try >= c.settings.retries || ctx.Err() != nil {
			if ctx.Err() != nil {
				return context.Cause(ctx)
			}
			return err
		}
		timer := time.NewTimer(max(wait.NextBackOff(), min(after, c.settings.retryLimit)))
		select {
		case <-timer.C:
		case <-ctx.Done():
			timer.Stop()
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

func passes(err error) (again bool, after time.Duration) {
	if f, ok := errors.AsType[*fleeting](err); ok {
		return true, f.after
	}
	return false, 0
}

// once sends a request, and follows where it is redirected to.
func (c *Client) once(ctx context.Context, q request, read func(http.Header, io.Reader) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	at, err := url.Parse(q.address)
	if err != nil {
		return &Error{Kind: Untrusted, Reason: "the registry names an address that is none"}
	}
	for range mostRedirects + 1 {
		if err := c.mayAsk(at, q.home); err != nil {
			return err
		}
		answer, err := c.send(ctx, at, q)
		if err != nil {
			return err
		}
		if to := answer.Header.Get("Location"); answer.StatusCode >= 300 && answer.StatusCode < 400 && answer.StatusCode != http.StatusNotModified {
			_ = answer.Body.Close()
			if at, err = at.Parse(to); err != nil || to == "" {
				return &Error{Kind: Untrusted, Reason: q.home.Host + " redirects to an address that is none"}
			}
			continue
		}
		defer answer.Body.Close()
		if err := status(answer, at); err != nil {
			return err
		}
		body := &alive{r: answer.Body, patience: c.settings.stall, cancel: cancel}
		defer body.watch()()
		if err := read(answer.Header, body); err != nil {
			if failure, ok := errors.AsType[*readError](err); ok {
				return &fleeting{error: unreachable(at, failure.error)}
			}
			return err
		}
		return nil
	}
	return &Error{Kind: Untrusted, Reason: fmt.Sprintf("%s redirects more than %d times", q.home.Host, mostRedirects)}
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

func (c *Client) send(ctx context.Context, at *url.URL, q request) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, at.String(), nil)
	if err != nil {
		return nil, &Error{Kind: Untrusted, Reason: "the registry names an address that is none"}
	}
	r.Header.Set("User-Agent", agent)
	r.Header.Set("Accept", q.accept)
	if q.plainTransfer {
		r.Header.Set("Accept-Encoding", "identity")
	}
	if q.known != "" {
		r.Header.Set("If-None-Match", q.known)
	}
	own := c.settings.loginFor(at)
	if at.Host == q.home.Host && own.authorization == "" {
		own = c.settings.loginFor(q.home)
	}
	if own.authorization != "" {
		r.Header.Set("Authorization", own.authorization)
	}
	answer, err := c.transport.RoundTrip(r)
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case errors.Is(err, errNotPublic):
		return nil, &Error{Kind: Untrusted, Reason: q.home.Host + " sends to " + clip(at.Host) + ": " + errNotPublic.Error(), Err: err}
	}
	if own, ok := errors.AsType[*Error](err); ok {
		return nil, own
	}
	return nil, &fleeting{error: unreachable(at, err)}
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

// A readError is of the network, not of what came over it.
type readError struct{ error }

func (e *readError) Unwrap() error { return e.error }

// alive reads a body, and gives up when nothing comes.
type alive struct {
	r        io.Reader
	patience time.Duration
	cancel   context.CancelFunc
	timer    *time.Timer
	gaveUp   atomic.Bool
}

var errStalled = errors.New("nothing came any more")

func (a *alive) watch() (stop func()) {
	a.timer = time.AfterFunc(a.patience, func() {
		a.gaveUp.Store(true)
		a.cancel()
	})
	return func() { a.timer.Stop() }
}

func (a *alive) Read(p []byte) (int, error) {
	n, err := a.r.Read(p)
	if n > 0 && !a.gaveUp.Load() {
		a.timer.Reset(a.patience)
	}
	if err != nil && !errors.Is(err, io.EOF) {
		if a.gaveUp.Load() {
			err = errStalled
		}
		err = &readError{err}
	}
	return n, err
}

// readAll reads at most limit bytes. More is an error.
func readAll(r io.Reader, limit int64, header http.Header) ([]byte, error) {
	if announced, err := strconv.ParseInt(header.Get("Content-Length"), 10, 64); err == nil && announced > limit {
		return nil, tooLong(limit)
	}
	raw, err := io.ReadAll(io.LimitReader(r, limit+1))
	if err == nil && int64(len(raw)) > limit {
		err = tooLong(limit)
	}
	return raw, err
}

func tooLong(limit int64) error {
	return &Error{Kind: Untrusted, Reason: fmt.Sprintf("the registry's answer is over %d MB", limit>>20)}
}

// addressOf is where a registry has the metadata of a package.
func addressOf(registry, name string) string {
	return registry + strings.ReplaceAll(name, "/", "%2f") // a name has no other signs that mean something there
}
