package phoenix

import "errors"

// errNotReading ends a connection whose client leaves everything unread.
var errNotReading = errors.New("the client does not read: over 64 MiB wait for it")
