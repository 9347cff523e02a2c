#!/bin/sh
# Starts OpenFn's ws-worker for phxconform, which tells it the endpoint, the secret and the rest by
# ws-worker's own variables. WS_WORKER is the file that starts it, dist/start.js of @openfn/ws-worker.
# ADAPTORS is the folder of the real engine, with the adaptor of --adaptor installed beforehand.
#
#   WS_WORKER=…/dist/start.js phxconform worker --expected-failures known.txt -- examples/conformance/ws-worker.sh --mock
#
# Its engine is given 60 s to show that it is well: on a busy machine, with several workers that start at once, its
# own 5 s are too few. Its mock engine needs node's modules of vm.
export WORKER_REPO_DIR="${ADAPTORS:-}" WORKER_VALIDATION_TIMEOUT_MS=60000
# exec: the process that is signalled has to be the worker itself, and not a shell that does not pass it on.
exec node --experimental-vm-modules --no-warnings "${WS_WORKER:?set it to dist/start.js of @openfn/ws-worker}" "$@"
