package options

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker"
)

// Only a server that is known to have a page is said to have one.
func TestOnlyTheMockServerHasAPage(t *testing.T) {
	for url, want := range map[string]string{mockURL: "http://localhost:8888/", "wss://lightning.example.org/worker": "", "ws://localhost:9999/worker": ""} {
		settings := Settings{Worker: phxworker.Config{URL: url}}
		require.Equal(t, want, settings.ServerPage(), url)
	}
}
