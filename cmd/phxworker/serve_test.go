package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Guards against an address in the log that no browser opens.
func TestTheAddressInTheLogCanBeOpened(t *testing.T) {
	for at, want := range map[string]string{
		"[::]:2222": "http://127.0.0.1:2222", "0.0.0.0:80": "http://127.0.0.1:80", "127.0.0.1:1": "http://127.0.0.1:1",
		"[::1]:2222": "http://[::1]:2222", "10.0.0.1:2222": "http://10.0.0.1:2222",
	} {
		require.Equal(t, want, openable(stringAddr(at)))
	}
}
