package runner

import (
	"cmp"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// maxSpoolFile is the size of the largest file that is read back, in bytes. What is spooled of a
// run is some outboxes full at most.
const maxSpoolFile = 1 << 30

// spoolFolder is an opened spool folder. Nothing in it leads out of it.
type spoolFolder struct {
	*os.Root

	owner int
}

// openSpoolFolder opens a folder. One of another user's is refused: whoever owns it can put
// there what he likes, and take out what is in it.
func openSpoolFolder(dir string) (*spoolFolder, fs.FileInfo, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, nil, err
	}
	info, err := root.Stat(".")
	if err == nil && !mayUseFolder(os.Geteuid(), ownerOf(info)) {
		err = fmt.Errorf("the spool folder %s belongs to the user %d, and this is %d: chown it, or use one of its own", dir, ownerOf(info), os.Geteuid())
	}
	if err != nil {
		_ = root.Close()
		return nil, nil, err
	}
	return &spoolFolder{Root: root, owner: ownerOf(info)}, info, nil
}

// mayUseFolder reports whether a user is safe to use a folder of that owner's. Root is, from whom
// nobody else can keep anything.
func mayUseFolder(me, owner int) bool { return owner == me || owner == 0 || me == 0 }

// mayReadFile reports whether a user is to believe a file of that owner's in the folder of
// that other one.
func mayReadFile(me, folder, file int) bool { return file == me || file == 0 || file == folder }

// CheckSpool says what keeps a folder from being [Config.Spool], and else what is doubtful about
// it, empty if nothing is.
func CheckSpool(dir string) (warning string, err error) {
	folder, info, err := openSpoolFolder(dir)
	if err != nil {
		return "", err
	}
	defer folder.Close()
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Sprintf("others may write to the spool folder %s: what they put there is not sent, but they can remove what is; chmod go-w %s", dir, dir), nil
	}
	return "", nil
}

// plainID is an id that is a file name: neither two that differ in capitals only, nor too long.
var plainID = regexp.MustCompile(`^[a-z0-9_][a-z0-9_-]{0,99}$`)

// spoolName makes a file name of a run's id, which the server chose. Each id has its own, on file
// systems without capitals too.
func spoolName(runID string) string {
	if plainID.MatchString(runID) {
		return runID + ".json"
	}
	readable := strings.Trim(strings.Map(func(c rune) rune {
		if c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' {
			return c
		}
		return '_'
	}, strings.ToLower(runID)), "_-")
	sum := sha256.Sum256([]byte(runID))
	return cmp.Or(readable[:min(len(readable), 60)], "run") + "~" + hex.EncodeToString(sum[:16]) + ".json"
}

// create writes the file under a name that is free, into the folder.
func (s *Spooled) create(dir string) error {
	folder, _, err := openSpoolFolder(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	part, err := folder.writePart(s)
	if err != nil {
		return err
	}
	name, err := folder.reserve(spoolName(s.RunID))
	if err == nil {
		err = folder.Rename(part, name)
	}
	if err != nil {
		_ = folder.Remove(part)
		return err
	}
	s.Path = filepath.Join(dir, name)
	return nil
}

// replace writes the file again where it was.
func (s *Spooled) replace() error {
	folder, _, err := openSpoolFolder(filepath.Dir(s.Path))
	if err != nil {
		return err
	}
	defer folder.Close()
	part, err := folder.writePart(s)
	if err != nil {
		return err
	}
	return folder.Rename(part, filepath.Base(s.Path))
}

// writePart writes a file of a name that nobody could know, so that it is there whole or not at
// all once it has its own: the worker may be about to end, and the machine as well.
func (f *spoolFolder) writePart(s *Spooled) (name string, err error) {
	data, err := json.Marshal(s)
	if err != nil {
		return "", err
	}
	name = "." + rand.Text() + ".part"
	file, err := f.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", err
	}
	_, err = file.Write(data)
	if err = errors.Join(err, file.Sync(), file.Close()); err != nil {
		_ = f.Remove(name)
		return "", err
	}
	return name, nil
}

// reserve makes an empty file of that name, or of one like it if there is anything of that name: it
// may be the last copy of another run, or of an earlier attempt at the same.
func (f *spoolFolder) reserve(name string) (string, error) {
	for range 3 {
		file, err := f.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return name, file.Close()
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
		name = strings.TrimSuffix(name, ".json") + "~" + strings.ToLower(rand.Text()[:8]) + ".json"
	}
	return "", fmt.Errorf("there are files of the names that it would have, up to %s", name)
}

// EachSpooled reads what lies in a spool folder, run by run, by name. What is no spooled run comes
// as an error, and so does a folder that cannot be read.
func EachSpooled(dir string) iter.Seq2[*Spooled, error] {
	return func(yield func(*Spooled, error) bool) {
		folder, _, err := openSpoolFolder(dir)
		if err != nil {
			yield(nil, err)
			return
		}
		defer folder.Close()
		entries, err := fs.ReadDir(folder.FS(), ".")
		if err != nil {
			yield(nil, err)
			return
		}
		for _, entry := range entries {
			if filepath.Ext(entry.Name()) != ".json" {
				continue
			}
			path := filepath.Join(dir, entry.Name())
			spooled, err := folder.read(entry.Name())
			if err != nil {
				spooled, err = nil, fmt.Errorf("%s is no spooled run: %w", path, err)
			} else {
				spooled.Path = path
			}
			if !yield(spooled, err) {
				return
			}
		}
	}
}

func (f *spoolFolder) read(name string) (*Spooled, error) {
	data, err := f.readFile(name)
	if err != nil {
		return nil, err
	}
	spooled := new(Spooled)
	if err := json.Unmarshal(data, spooled); err != nil {
		return nil, err
	}
	return spooled, spooled.check()
}

// readFile reads a file, and nothing else that may be in its place: it can be anything by the time
// that it is opened.
func (f *spoolFolder) readFile(name string) ([]byte, error) {
	found, err := f.Lstat(name)
	switch {
	case err != nil:
		return nil, err
	case found.Mode()&fs.ModeSymlink != 0:
		return nil, errors.New("it is a symbolic link")
	case !found.Mode().IsRegular():
		return nil, errors.New("it is no file")
	}
	file, err := f.OpenFile(name, os.O_RDONLY|atOnce, 0)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	switch {
	case err != nil:
		return nil, err
	case !os.SameFile(found, info):
		return nil, errors.New("it was replaced while it was opened")
	case !mayReadFile(os.Geteuid(), f.owner, ownerOf(info)):
		return nil, fmt.Errorf("it belongs to the user %d, and its folder to %d", ownerOf(info), f.owner)
	case info.Mode().Perm()&0o002 != 0:
		return nil, errors.New("everybody may write to it")
	case info.Size() > maxSpoolFile:
		return nil, fmt.Errorf("it has %d bytes, over the limit of %d", info.Size(), maxSpoolFile)
	}
	return io.ReadAll(io.LimitReader(file, maxSpoolFile))
}

// spoolable are the events that a run may have left.
var spoolable = []string{"run:start", "run:log", "run:batch_logs", "step:start", "step:complete", "run:complete"}

// check says what keeps the contents of a file from being sent.
func (s *Spooled) check() error {
	if s.RunID == "" {
		return errors.New("it has no run_id")
	}
	for _, e := range s.Events {
		if !slices.Contains(spoolable, e.Event) {
			return fmt.Errorf("%.100q is no event of a run", e.Event)
		}
		if len(e.Payload) == 0 || e.Payload[0] != '{' {
			return fmt.Errorf("the payload of %q is no object", e.Event)
		}
	}
	return nil
}
