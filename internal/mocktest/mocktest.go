// Package mocktest chooses what the mock servers of our own tests know, so that CI can run
// a whole suite against either mode of the server.
package mocktest

import (
	"fmt"
	"os"

	"github.com/phxworker/phxworker/mockserver"
)

// Variable is the environment variable that names the mode: lightning or extended.
const Variable = "PHXWORKER_MOCK_MODE"

// Config returns the configuration of a test's server. A test that names no mode has the one
// that the environment does, and Lightning if it names none.
func Config(cfg mockserver.Config) mockserver.Config {
	if cfg.Mode != "" {
		return cfg
	}
	var err error
	if cfg.Mode, err = mockserver.ParseMode(os.Getenv(Variable)); err != nil {
		panic(fmt.Sprintf("%s: %v", Variable, err))
	}
	return cfg
}
