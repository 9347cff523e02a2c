package phxworker

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/runner/delivery"
)

// Resent says what became of one spooled run.
type Resent struct {
	RunID string
	Path  string
	// Err is nil when the server has taken all of it; its file is removed then.
	Err error
}

// These are short, since a person waits for a resend.
const (
	connectTimeout = 15 * time.Second
	resendTimeout  = time.Minute // for one run
)

// ResendSpool reports the runs that lie in the folder [Delivery.Spool], one after the other, and
// removes the file of each run that the server takes. It connects as cfg says, and needs no Engine. The
// error says which files could not be read, or why nothing could be sent; all other runs are in the
// result.
//
// The server takes a run's events only while the run's token is good, which is a little longer than the
// run was allowed to take.
func ResendSpool(ctx context.Context, cfg Config) ([]Resent, error) {
	if cfg.Delivery.Spool == "" {
		return nil, errors.New("phxworker: no spool folder: say where the spooled runs are")
	}
	var results []Resent
	var unreadable []error
	var socket *channel.Socket // nil until there is something to send
	for run, err := range delivery.EachSpooled(cfg.Delivery.Spool) {
		if err != nil {
			unreadable = append(unreadable, fmt.Errorf("phxworker: %w", err))
			continue
		}
		if socket == nil {
			if socket, err = connectToResend(ctx, cfg); err != nil {
				return nil, err
			}
			defer socket.Close()
		}
		bounded, cancel := context.WithTimeout(ctx, resendTimeout)
		results = append(results, Resent{RunID: run.RunID, Path: run.Path, Err: run.Resend(bounded, socket)})
		cancel()
	}
	return results, errors.Join(unreadable...)
}

func connectToResend(ctx context.Context, cfg Config) (*channel.Socket, error) {
	if cfg.Engine == nil {
		cfg.Engine = Func(func(context.Context, *Run) (any, error) { return nil, ErrUnable }) // never called
	}
	worker, err := New(cfg)
	if err != nil {
		return nil, err
	}
	socket, err := worker.open()
	if err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	if err := socket.Connected(waiting); err != nil {
		_ = socket.Close()
		return nil, fmt.Errorf("phxworker: %w", err)
	}
	return socket, nil
}
