package main

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/cmd/phxworker/options"
)

func TestAPortThatCannotBeHad(t *testing.T) {
	taken, err := listen(t.Context(), options.HTTP{Host: "127.0.0.1", Port: "0"})
	require.NoError(t, err)
	defer taken.Close()
	_, port, err := net.SplitHostPort(taken.Addr().String())
	require.NoError(t, err)
	_, err = listen(t.Context(), options.HTTP{Host: "127.0.0.1", Port: port})
	require.EqualError(t, err, "--port "+port+" is taken on this machine: give another, 0 for any free one, or off")

	_, err = listen(t.Context(), options.HTTP{Host: "192.0.2.1", Port: "0"}) // an address for documentation
	require.ErrorContains(t, err, "--host 192.0.2.1 cannot be listened at: ")
	require.ErrorContains(t, err, "give an address of this machine, or leave it out for all")
}

// No test listens at all addresses of the machine that it runs on.
func TestAllAddressesOfIPv4AreNoneOfIPv6(t *testing.T) {
	for host, want := range map[string]string{"0.0.0.0": "tcp4", "127.0.0.1": "tcp4", "::": "tcp", "::1": "tcp", "": "tcp", "localhost": "tcp"} {
		require.Equal(t, want, network(host), host)
	}
}

// Guards against an address in the log that no browser opens.
func TestTheAddressInTheLogCanBeOpened(t *testing.T) {
	for at, want := range map[string]string{
		"[::]:2222": "http://127.0.0.1:2222", "0.0.0.0:80": "http://127.0.0.1:80", "127.0.0.1:1": "http://127.0.0.1:1",
		"[::1]:2222": "http://[::1]:2222", "10.0.0.1:2222": "http://10.0.0.1:2222",
	} {
		require.Equal(t, want, openable(stringAddr(at)))
	}
}
