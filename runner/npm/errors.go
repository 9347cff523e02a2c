package npm

import (
	"errors"
	"fmt"
	"strings"
)

// Kind says whose an error is, and whether there is a point in trying again.
type Kind int

const (
	// Unknown is none of the others.
	Unknown Kind = iota
	// NotFound is a package that the registry does not have, or not for everybody.
	NotFound
	// NoVersion is a range or a tag without a version.
	NoVersion
	// Refused is a package that the registry does not give out.
	Refused
	// Unauthorized is a registry that wants credentials, or other ones.
	Unauthorized
	// Unreachable is a registry that cannot be reached, does not answer or is ill.
	Unreachable
	// Offline is what is not in the cache where no network may be used.
	Offline
	// Untrusted is what must not be believed: a wrong sum, a path that leads out, too much of anything.
	Untrusted
	// Unsupported is a dependency that is not one of a registry, or is for another system.
	Unsupported
	// Misconfigured is a setting that cannot be used.
	Misconfigured
)

func (k Kind) String() string {
	names := []string{"unknown", "not found", "no version", "refused", "unauthorized", "unreachable", "offline", "untrusted", "unsupported", "misconfigured"}
	if k < 0 || int(k) >= len(names) {
		return fmt.Sprintf("kind %d", int(k))
	}
	return names[k]
}

// Error is why a package cannot be had. It is one line.
type Error struct {
	Kind Kind
	// Package is a name, with a version or a range after an @. Empty if it is about none.
	Package string
	// Reason is for people.
	Reason string
	// Err is the cause, if there is another error. Its text may be part of Reason.
	Err error
}

func (e *Error) Error() string {
	if e.Package == "" {
		return e.Reason
	}
	return e.Package + ": " + e.Reason
}

func (e *Error) Unwrap() error { return e.Err }

// about gives an error of the package the name of what was asked for.
func about(what string, err error) error {
	if e, ok := errors.AsType[*Error](err); ok && e.Package == "" {
		named := *e
		named.Package = what
		return &named
	}
	return err
}

// oneLine is the text of an error without line breaks.
func oneLine(err error) string {
	return strings.Join(strings.Fields(err.Error()), " ")
}

// CacheError is why the cache cannot be used: the disk is full, for instance.
type CacheError struct {
	Dir string
	Err error
}

func (e *CacheError) Error() string { return "the cache of packages cannot be used: " + e.Err.Error() }

func (e *CacheError) Unwrap() error { return e.Err }
