package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"syscall"
	"time"

	"github.com/phxworker/phxworker"
	"github.com/phxworker/phxworker/cmd/phxworker/web"
)

// remote is a worker that is asked over HTTP.
type remote struct {
	address string // without a slash at its end
	shown   string // the address for people
	token   string
	client  *http.Client
	wire    *http.Transport // of the client

	// For the worker that asks for another token, or for one: where the token was, or
	// why there is none. Empty where somebody gave it, or is to.
	tokenFile, noToken string
}

const (
	// answerTimeout is how long a worker may take: what it is asked for is done at once.
	answerTimeout = 10 * time.Second
	maxAnswer     = 8 << 20
	// drainInterval is how often a worker that drains is looked at.
	drainInterval = 500 * time.Millisecond
)

func newRemote(address *url.URL, token string) *remote {
	// A connection each: commands ask once, and a drain wants to hear when the
	// listener is gone.
	wire := &http.Transport{Proxy: http.ProxyFromEnvironment, DisableKeepAlives: true}
	return &remote{
		address: strings.TrimSuffix(address.String(), "/"), shown: loggable(address.String()), token: token, wire: wire,
		client: &http.Client{
			Timeout: answerTimeout, Transport: wire,
			// A worker never redirects, and what does must not get the token.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
	}
}

// ask sends a request and decodes the answer, unless v is nil.
func (r *remote) ask(ctx context.Context, method, path string, body []byte, v any) error {
	answer, err := r.fetch(ctx, method, path, body)
	if err != nil || v == nil {
		return err
	}
	if err := json.Unmarshal(answer, v); err != nil {
		return r.stranger(http.StatusOK)
	}
	return nil
}

// fetch returns what a request is answered with.
func (r *remote) fetch(ctx context.Context, method, path string, body []byte) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, r.address+path, bytes.NewReader(body))
	if err != nil {
		return nil, fmt.Errorf("%s cannot be asked: %w", r.shown, err)
	}
	if r.token != "" {
		request.Header.Set("Authorization", "Bearer "+r.token)
	}
	response, err := r.client.Do(request)
	if err != nil {
		return nil, r.unreachable(err)
	}
	defer response.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(response.Body, maxAnswer))
	if err != nil {
		return nil, r.unreachable(err)
	}
	if response.StatusCode < 300 {
		return answer, nil
	}
	var failure struct{ Error string }
	switch {
	case response.StatusCode == http.StatusUnauthorized:
		return nil, r.unauthorized()
	case (method != http.MethodGet || response.StatusCode == http.StatusForbidden) && json.Unmarshal(answer, &failure) == nil && failure.Error != "":
		return nil, errors.New(printable(failure.Error))
	}
	return nil, r.stranger(response.StatusCode)
}

// unauthorized says that the worker wants a token, or another one.
func (r *remote) unauthorized() error {
	const give = "give it with --http-token-file or WORKER_HTTP_TOKEN"
	switch {
	case r.noToken != "":
		return fmt.Errorf("%s: this worker asks for a token, and %s: run this as the user of the worker (sudo -u USER), with its TMPDIR and XDG_RUNTIME_DIR (its log names the file where it says serving), or %s", r.shown, r.noToken, give)
	case r.token == "":
		return fmt.Errorf("%s: this worker asks for a token: %s", r.shown, give)
	case r.tokenFile != "":
		return fmt.Errorf("%s does not take the token in %s, which another worker has left there: this one was given its own, so %s", r.shown, r.tokenFile, give)
	}
	return fmt.Errorf("%s does not take the token: what it has is what it was given as --http-token, --http-token-file or WORKER_HTTP_TOKEN", r.shown)
}

// stranger says that somebody else is there. Whom a worker refuses something, it
// tells why.
func (r *remote) stranger(status int) error {
	return fmt.Errorf("%s is not a phxworker (it answered %d); give the address of one with --url", r.shown, status)
}

// unreachable words why there is no answer, without the URL that [url.Error] has.
func (r *remote) unreachable(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	return fmt.Errorf("no worker answers at %s: %w; say where it is with --url", r.shown, err)
}

func (r *remote) status(ctx context.Context) (status web.Status, err error) {
	err = r.ask(ctx, http.MethodGet, "/status", nil, &status)
	return status, err
}

// groups sends a request that is answered with groups.
func (r *remote) groups(ctx context.Context, method, path string, body []byte) ([]phxworker.GroupStats, error) {
	var answer struct{ Groups []phxworker.GroupStats }
	err := r.ask(ctx, method, path, body, &answer)
	return answer.Groups, err
}

// outlive returns when the worker that began at that time is gone: nobody listens
// any more, or another one is there in its place. What else fails on
// the way is tried again for a while.
func (r *remote) outlive(ctx context.Context, began time.Time) error {
	ticker := time.NewTicker(drainInterval)
	defer ticker.Stop()
	for failures := 0; ; {
		status, err := r.status(ctx)
		switch {
		case errors.Is(err, syscall.ECONNREFUSED):
			return nil
		case err == nil && !status.Process.Started.Equal(began):
			return nil
		case err == nil:
			failures = 0
		default:
			if failures++; failures > 10 {
				return err
			}
		}
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return errors.New("no longer waited for; the worker goes on draining")
		}
	}
}
