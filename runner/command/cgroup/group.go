package cgroup

import "errors"

// ErrUnsupported says that the system has no control groups.
var ErrUnsupported = errors.New("control groups are Linux's")

const mb = 1 << 20
