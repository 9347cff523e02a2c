//go:build !linux

package fence

import "errors"

func closeRange() error { return errors.ErrUnsupported }
