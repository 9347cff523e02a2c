package mockserver_test

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// One of the clients leaves its goroutines behind.
	var ignored []goleak.Option
	for _, name := range []string{"(*Websocket).connectionManager", "(*Websocket).connectionReader", "(*Websocket).connectionWriter", "(*Socket).heartbeat"} {
		ignored = append(ignored, goleak.IgnoreAnyFunction("github.com/nshafer/phx."+name))
	}
	goleak.VerifyTestMain(m, ignored...)
}
