#!/bin/sh
# Starts OpenFn's ws-worker for phxconform, which tells it the endpoint, the secret and the rest by
# ws-worker's own variables. WS_WORKER is the file that starts it, dist/start.js of @openfn/ws-worker.
#
#   WS_WORKER=…/dist/start.js phxconform worker --expected-failures known.txt -- examples/conformance/ws-worker.sh --mock
#
# exec: the process that is signalled has to be the worker itself, and not a shell that does not pass it on.
exec node "${WS_WORKER:?set it to dist/start.js of @openfn/ws-worker}" "$@"
