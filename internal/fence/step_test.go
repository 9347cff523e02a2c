//go:build linux && (amd64 || arm64)

package fence

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

// Guards against what breaks a line of the log, or of phxworker config, in two.
func TestWhatIsMissingIsToldInOneLine(t *testing.T) {
	missing := lacks{}
	missing.note(limits, errors.Join(errors.New("no cores"), errors.New("no sizes")))
	missing.note(seccomp, errors.New("none"))
	missing.note(landlock, nil)
	require.Equal(t, lacks{limits: "limits: no cores; no sizes", seccomp: "seccomp: none"}, missing)
	require.EqualError(t, missing, "limits: no cores; no sizes; seccomp: none")
}
