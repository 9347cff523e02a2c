// Package recorded holds the engines to recorded runs of OpenFn's worker and
// engine. It has tests only: each run is executed by the real runner against the
// mock server, with every engine that it applies to, and what the server heard is
// compared with what was recorded.
package recorded
