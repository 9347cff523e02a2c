package token

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/phxworker/phxworker/internal/owned"
)

// UnitFolder is where the systemd unit in deploy keeps the token of its worker. An
// administrator's commands do not have the unit's environment, and look there as well.
const UnitFolder = "/run/phxworker"

// Folders returns where a token is kept, the best place first: the user's folder for
// such files, a service's, and one among the temporary files. They need not be there.
func Folders(getenv func(string) string) []string {
	var folders []string
	if dir := getenv("XDG_RUNTIME_DIR"); filepath.IsAbs(dir) {
		folders = append(folders, filepath.Join(dir, "phxworker"))
	}
	if dir, _, _ := strings.Cut(getenv("RUNTIME_DIRECTORY"), ":"); filepath.IsAbs(dir) {
		folders = append(folders, dir)
	}
	return append(folders, among(os.TempDir()))
}

// Places returns where the token of a worker of this user may be kept, or of the unit: in
// [Folders], and where those are that have another environment. A command of cron, sudo
// or ssh has no XDG_RUNTIME_DIR, and a worker may have a TMPDIR of its own.
func Places(getenv func(string) string) []string {
	session := "/run/user/" + strconv.Itoa(os.Geteuid()) + "/phxworker"
	places := append(Folders(getenv), session, among("/tmp"), among("/var/tmp"), UnitFolder)
	slices.Sort(places)
	return slices.Compact(places)
}

// among returns this user's folder among temporary files.
func among(dir string) string {
	return filepath.Join(dir, "phxworker-"+strconv.Itoa(os.Geteuid()))
}

// openFolder opens a folder that nobody but its owner can put files into, and returns the
// owner. That must be this user. Root may open any user's, since [UnitFolder] is that of the
// unit's user; but not to write into it, for which mine is set.
func openFolder(path string, mine bool) (*os.Root, int, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, 0, err
	}
	owner, me := owned.By(info), os.Geteuid()
	switch {
	case !info.IsDir():
		return nil, 0, fmt.Errorf("%s is no folder", path)
	case owner != me && (mine || me != 0):
		return nil, 0, fmt.Errorf("%s belongs to another user", path)
	case owned.WrittenByOthers(path, info):
		return nil, 0, fmt.Errorf("%s can be written to by others: chmod go= %s", path, path)
	}
	root, err := os.OpenRoot(path)
	if err != nil {
		return nil, 0, err
	}
	// What was looked at is what was opened: names are given and taken quickly.
	if opened, err := root.Stat("."); err != nil || !os.SameFile(info, opened) {
		return nil, 0, errors.Join(fmt.Errorf("%s was replaced meanwhile", path), root.Close())
	}
	return root, owner, nil
}
