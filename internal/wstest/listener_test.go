package wstest

import (
	"context"
	"io"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

func TestListenerServesHTTPInFakeTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := NewListener()
		srv := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			time.Sleep(time.Hour) // fake: the bubble's clock jumps
			_, _ = io.WriteString(w, "late")
		})}
		go func() { _ = srv.Serve(l) }()
		client := &http.Client{Transport: &http.Transport{DialContext: l.DialContext, DisableKeepAlives: true}}

		began := time.Now()
		res, err := client.Get("http://server/")
		require.NoError(t, err)
		body, err := io.ReadAll(res.Body)
		require.NoError(t, err)
		require.NoError(t, res.Body.Close())
		require.Equal(t, "late", string(body))
		require.Equal(t, time.Hour, time.Since(began))

		require.NoError(t, srv.Close())
		synctest.Wait()
		require.Equal(t, 1, l.Dialed())
		require.Zero(t, l.Open())
	})
}

func TestDialOfClosedListenerIsRefused(t *testing.T) {
	l := NewListener()
	require.NoError(t, l.Close())
	require.NoError(t, l.Close())

	_, err := l.DialContext(context.Background(), "tcp", "server:80")
	var op *net.OpError
	require.ErrorAs(t, err, &op)
	require.ErrorIs(t, err, net.ErrClosed)
	_, err = l.Accept()
	require.ErrorIs(t, err, net.ErrClosed)
	require.Zero(t, l.Open())
}

func TestDialGivesUpWithItsContext(t *testing.T) {
	l := NewListener() // nobody accepts
	ctx, cancel := context.WithCancel(context.Background())
	cancel()

	_, err := l.DialContext(ctx, "tcp", "server:80")
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, 1, l.Dialed())
	require.Zero(t, l.Open())
}
