package token

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/phxworker/phxworker/internal/owned"
)

// Found is a token, and the file that it was in.
type Found struct{ Token, Path string }

// ErrNone is that nothing is kept for an address.
var ErrNone = errors.New("none is kept for it")

// Find returns the token of the worker of this machine that is reached at the address. Of
// several, which workers that were killed have left, it is the latest. Without
// any, the error is [ErrNone], or says why what is there cannot be used.
func Find(folders []string, address netip.AddrPort) (Found, error) {
	var latest Found
	var at time.Time
	var reasons []error
	for _, folder := range folders {
		for _, name := range names(address) {
			token, written, err := findIn(folder, name)
			switch {
			case errors.Is(err, fs.ErrNotExist):
			case err != nil:
				reasons = append(reasons, err)
			case written.After(at):
				latest, at = Found{Token: token, Path: filepath.Join(folder, name)}, written
			}
		}
	}
	switch {
	case latest.Token != "":
		return latest, nil
	case reasons != nil:
		return Found{}, reasons[0]
	}
	return Found{}, fmt.Errorf("%w in %s", ErrNone, strings.Join(folders, ", "))
}

// names returns what the file of a worker may be called that is reached at the
// address: it listens there, or at all addresses.
func names(address netip.AddrPort) []string {
	all := []netip.Addr{address.Addr().Unmap(), netip.IPv6Unspecified()}
	if all[0].Is4() {
		all = append(all, netip.IPv4Unspecified())
	}
	var names []string
	for _, addr := range all {
		names = append(names, netip.AddrPortFrom(addr, address.Port()).String()+suffix)
	}
	return names
}

// wellFormed is what [New] makes. Whatever else is in a file must not be sent to
// anybody.
var wellFormed = regexp.MustCompile(`^[A-Z2-7]{26,}\n$`)

func findIn(folder, name string) (token string, written time.Time, err error) {
	root, owner, err := openFolder(folder, false)
	if err != nil {
		return "", time.Time{}, err
	}
	defer func() { _ = root.Close() }()
	info, err := root.Lstat(name)
	if err != nil {
		return "", time.Time{}, err
	}
	path := filepath.Join(folder, name)
	if !info.Mode().IsRegular() || owned.By(info) != owner || info.Size() > 100 {
		return "", time.Time{}, fmt.Errorf("%s is not what a worker has written", path)
	}
	text, err := root.ReadFile(name)
	switch {
	case err != nil:
		return "", time.Time{}, err
	case !wellFormed.Match(text):
		return "", time.Time{}, fmt.Errorf("%s is not what a worker has written", path)
	}
	return strings.TrimSuffix(string(text), "\n"), info.ModTime(), nil
}
