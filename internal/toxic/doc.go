// Package toxic tests the worker on a network that misbehaves: real TCP on the
// loopback, through Shopify's toxiproxy. It has tests only, and is a module of its
// own, so that what the proxy needs does not become a requirement of the worker.
package toxic
