// Package worker has the conformance cases for workers of Lightning.
package worker
