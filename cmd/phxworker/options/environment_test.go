package options

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Guards against a limit that is silently off, for its variable has a mistake in it.
func TestVariablesThatNobodyReadsAreTold(t *testing.T) {
	environ := []string{
		"PATH=/bin", "WORKERS=3", "WORKER_PORT=2222", "WORKER_HTTP_URL=http://127.0.0.1:2222", "DEPLOYED_POD_NAME=a",
		"WORKER_MAX_RUN_MEMORY=500", "WORKER_CAPCITY=3", "WORKER_EMPTY=", "WORKER_WHATEVER_ELSE=1", "WORKER_RUNS_PRIVATE_KEY=hidden",
		"WORKER_SERVICE_HOST=10.0.0.1", "WORKER_SERVICE_PORT_HTTP=80", "WORKER_PORT_80_TCP_ADDR=10.0.0.1",
	}
	require.Equal(t, []Notice{
		{unknownVariable, "WORKER_CAPCITY", "did you mean WORKER_CAPACITY?"},
		{unknownVariable, "WORKER_MAX_RUN_MEMORY", "did you mean WORKER_MAX_RUN_MEMORY_MB?"},
		{unknownVariable, "WORKER_RUNS_PRIVATE_KEY", "it is the server's, and a secret that no worker needs: take it out"},
		{unknownVariable, "WORKER_WHATEVER_ELSE", "it is neither one of ws-worker's, up to 1.29.2, nor of this worker's own"},
	}, UnknownVariables(environ))
}
