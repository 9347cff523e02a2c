package server_test

import (
	"testing"

	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/conform"
	"github.com/phxworker/phxworker/mockserver/conform/server"
	"github.com/phxworker/phxworker/mockserver/conform/suite"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestTheMockServerConforms(t *testing.T) {
	for _, mode := range []mockserver.Mode{mockserver.Lightning, mockserver.Extended} {
		t.Run(string(mode), func(t *testing.T) { conform.Server(t, server.Mock(mode), suite.Options{Expected: []string{}}) })
	}
}
