package chunk

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Guards against who waits on a stream for ever: for a response that is given up, for what nobody reads, and at the end of the run.
func TestWaitsOnStreamsEnd(t *testing.T) {
	server := newServer(t)
	client := newClient(t, "any")
	ctx, cancel := context.WithCancel(t.Context())
	call, err := client.Traffic.Admit(0)
	require.NoError(t, err)
	defer call.Free()
	var under sync.WaitGroup
	begun := client.Do(ctx, Exchange{Method: "GET", URL: server.URL + "/stalled", Stream: 1, Call: call})
	require.Equal(t, 200, begun.StatusCode)
	require.Equal(t, "YmVndW4=", client.Do(ctx, Exchange{Op: opRead, Stream: 1}).Body)
	under.Go(func() { require.NotNil(t, client.Do(ctx, Exchange{Op: opRead, Stream: 1}).Error) })
	under.Go(func() { require.NotNil(t, client.Do(ctx, Exchange{Op: opRest, Stream: 1, Call: call}).Error) })
	client.Do(ctx, Exchange{Op: opCancel, Stream: 1})
	under.Wait()
	require.NotNil(t, client.Do(ctx, Exchange{Op: opRead, Stream: 1}).Error, "it is over")

	under.Go(func() { require.NotNil(t, client.Do(ctx, Exchange{Op: opWrite, Stream: 2, Text: "to nobody"}).Error) })
	under.Go(func() {
		require.NotNil(t, client.Do(ctx, Exchange{Method: "POST", URL: server.URL, Stream: 3, Follows: true, Length: -1, Call: call}).Error)
	})
	under.Go(func() {
		require.Nil(t, client.Do(ctx, Exchange{Op: opUnpack, Stream: 4, Method: "gzip"}).Error)
		require.NotNil(t, client.Do(ctx, Exchange{Op: opRead, Stream: 4}).Error)
	})
	cancel()
	under.Wait()
	client.Close()
}

// A body that is written in parts arrives whole, also when its first part is there before the request.
func TestABodyIsWrittenInParts(t *testing.T) {
	server := newServer(t)
	client := newClient(t, "any")
	defer client.Close()
	call, err := client.Traffic.Admit(0)
	require.NoError(t, err)
	defer call.Free()
	var under sync.WaitGroup
	under.Go(func() {
		for _, part := range []string{"one ", "two ", "three"} {
			require.Nil(t, client.Do(t.Context(), Exchange{Op: opWrite, Stream: 1, Text: part}).Error)
		}
		require.True(t, client.Do(t.Context(), Exchange{Op: opEnd, Stream: 1}).Done)
	})
	answer := client.Do(t.Context(), Exchange{Method: "POST", URL: server.URL + "/echo", Stream: 1, Follows: true, Length: -1, Call: call})
	require.Equal(t, 200, answer.StatusCode, answer.Error)
	rest := client.Do(t.Context(), Exchange{Op: opRest, Stream: 1, Call: call})
	require.True(t, rest.Done)
	require.Contains(t, *rest.Text, "one two three")
	under.Wait()
}

// Guards against uploads that wait for one another until their time is over: a job that writes a part of each before the next part of
// any may have more of them than there are requests at once.
func TestUploadsInLockStep(t *testing.T) {
	const n = 20
	var begun sync.WaitGroup
	begun.Add(n)
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		part := make([]byte, 3)
		_, first := io.ReadFull(r.Body, part)
		begun.Done()
		_, rest := io.Copy(io.Discard, r.Body)
		if err := errors.Join(first, rest); err != nil {
			t.Error(err)
		}
	}))
	t.Cleanup(server.Close)
	client := newClient(t, "any")
	defer client.Close()
	var under sync.WaitGroup
	for i := 1; i <= n; i++ {
		under.Go(func() {
			call, err := client.Traffic.Admit(0)
			require.NoError(t, err)
			defer call.Free()
			answer := client.Do(t.Context(), Exchange{Method: "POST", URL: server.URL, Stream: i, Follows: true, Length: -1, Call: call})
			require.Equal(t, 200, answer.StatusCode, answer.Error)
		})
		under.Go(func() {
			require.Nil(t, client.Do(t.Context(), Exchange{Op: opWrite, Stream: i, Text: "one"}).Error)
			begun.Wait() // for all of them
			require.True(t, client.Do(t.Context(), Exchange{Op: opEnd, Stream: i}).Done)
		})
	}
	under.Wait()
}

// Guards against who writes on for ever, where the other side was done early, and against a request that was given up before it was begun.
func TestNothingIsBegunOnAStreamThatIsOver(t *testing.T) {
	server := newServer(t)
	client := newClient(t, "any")
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
	defer cancel()
	defer client.Close()
	call, err := client.Traffic.Admit(0)
	require.NoError(t, err)
	defer call.Free()
	require.Equal(t, 200, client.Do(ctx, Exchange{Method: "POST", URL: server.URL + "/streamed", Stream: 1, Call: call}).StatusCode)
	require.True(t, client.Do(ctx, Exchange{Op: opRest, Stream: 1, Call: call}).Done)
	client.Do(ctx, Exchange{Op: opCancel, Stream: 2})
	server.take()
	for id := range 2 {
		for _, x := range []Exchange{{Op: opWrite, Text: "more"}, {Op: opUnpack, Method: "gzip"}, {Method: "GET", URL: server.URL + "/text", Call: call}} {
			x.Stream = id + 1
			require.Equal(t, errNoStream.Error(), client.Do(ctx, x).Error["message"], x)
		}
		require.True(t, client.Do(ctx, Exchange{Op: opEnd, Stream: id + 1}).Done)
	}
	require.Empty(t, server.take())
}
