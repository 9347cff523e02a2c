// Package deploy tests the files beside it, images, manifests, unit, dashboard and
// alerts, against the worker: as the binary is, and as it answers. docs/deploy.md
// says how to use them.
package deploy
