package delivery

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/claim"
)

var theEnd = SpooledEvent{Event: "run:complete", Payload: json.RawMessage(`{"reason":"success","error_type":null,"error_message":null}`)}

// spoolRun gives up a run with that id, after its start.
func spoolRun(dir, id string) {
	box := New(Config{Spool: dir}, slog.New(slog.DiscardHandler)).Open(claim.Run{ID: id, Token: "t"}, nil, slog.New(slog.DiscardHandler))
	box.Start(map[string]string{"worker": "test"})
	box.Complete(End{Reason: success, State: json.RawMessage(`1`)})
	box.GiveUp(errDead)
}

// The id is the server's: it must not lead out of the folder, be longer than a name may, or have the
// name of another one or of another attempt, also where capitals do not count.
func TestEachIDHasASpoolNameOfItsOwn(t *testing.T) {
	seen := make(map[string]string)
	long := strings.Repeat("x", 300)
	for _, id := range []string{
		"a/b", "a_b", "a b", "a.b", "A_B", "a_B", "a", "A", "", ".", "..", "../../etc/passwd", "-rf", long, long + "y", strings.ToUpper(long), "é", "e", "\x00", "con", "a_b.json", "a_b~", "a",
	} {
		name := spoolName(id, time.Now())
		require.Regexp(t, `^[a-z0-9_][a-z0-9_~-]*\.json$`, name, id)
		require.LessOrEqual(t, len(name), 200)
		require.NotContains(t, seen, name, "%q and %q", id, seen[name])
		seen[name] = id
	}
	at := time.Date(2026, 11, 22, 20, 45, 0, 0, time.UTC)
	require.Regexp(t, `^0b8e6f0a-8a43-4f0d-9d6e-2b1c7a5e9f01~20261122t204500z~[a-z2-7]{26}\.json$`, spoolName("0b8e6f0a-8a43-4f0d-9d6e-2b1c7a5e9f01", at))
	require.Regexp(t, `^etc_passwd~20261122t204500z~[a-z2-7]{26}\.json$`, spoolName("../../etc/passwd", at))
}

// Guards against an end of a run that is sent before an earlier one of another attempt: the server takes the first.
func TestOfOneRunTheOldestFileIsReadFirst(t *testing.T) {
	dir := t.TempDir()
	begin := time.Now()
	for attempt := range 8 {
		s := Spooled{RunID: "r1", At: begin.Add(time.Duration(attempt) * time.Second), Delivered: attempt}
		require.NoError(t, s.write(dir))
	}
	all, err := readSpool(dir)
	require.NoError(t, err)
	for attempt, s := range all {
		require.Equal(t, attempt, s.Delivered)
	}
}

// spooledIDs returns the ids of the runs in a folder.
func spooledIDs(t *testing.T, dir string) (ids []string) {
	t.Helper()
	all, err := readSpool(dir)
	require.NoError(t, err)
	for _, s := range all {
		ids = append(ids, s.RunID)
	}
	return ids
}

// Guards against a run's last copy that another run's replaces, be it from a version that gave
// both the same name.
func TestNoSpooledRunReplacesAnother(t *testing.T) {
	dir := t.TempDir()
	old, err := json.Marshal(Spooled{RunID: "c/d", Token: "t", Events: []SpooledEvent{theEnd}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "c_d.json"), old, 0o600))
	for _, id := range []string{"a/b", "a_b", "A/B", "c_d"} {
		spoolRun(dir, id)
	}
	require.ElementsMatch(t, []string{"a/b", "a_b", "A/B", "c_d", "c/d"}, spooledIDs(t, dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, entries, 5, "nothing is left behind")
}

// Guards against a link that somebody has put where a run is going to be spooled.
func TestASpooledRunIsWrittenThroughNoLink(t *testing.T) {
	dir, victim := t.TempDir(), filepath.Join(t.TempDir(), "victim")
	require.NoError(t, os.WriteFile(victim, []byte("precious"), 0o600))
	for _, name := range []string{"r1.json", "r1.json.part"} {
		require.NoError(t, os.Symlink(victim, filepath.Join(dir, name)))
	}
	spoolRun(dir, "r1")
	data, err := os.ReadFile(victim)
	require.NoError(t, err)
	require.Equal(t, "precious", string(data))
	all, err := readSpool(dir)
	require.ErrorContains(t, err, "r1.json is no spooled run: it is a symbolic link")
	require.Len(t, all, 1)
	info, err := os.Lstat(all[0].Path)
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o600), info.Mode())
}

// A folder may hold anything by the time that somebody looks into it. What is not a spooled run is
// named, and keeps no other from being sent.
func TestWhatIsReadFromASpoolFolder(t *testing.T) {
	good, err := json.Marshal(Spooled{RunID: "r1", Token: "t", Events: []SpooledEvent{theEnd}})
	require.NoError(t, err)
	tests := []struct {
		name string
		put  func(t *testing.T, path string)
		says string
	}{
		{name: "link", says: "it is a symbolic link", put: func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path+".txt", good, 0o600))
			require.NoError(t, os.Symlink(path+".txt", path))
		}},
		{name: "pipe", says: "it is no file", put: func(t *testing.T, path string) { require.NoError(t, syscall.Mkfifo(path, 0o600)) }},
		{name: "folder", says: "it is no file", put: func(t *testing.T, path string) { require.NoError(t, os.Mkdir(path, 0o700)) }},
		{name: "too large", says: "it has 1073741825 bytes, over the limit of 1073741824", put: func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, good, 0o600))
			require.NoError(t, os.Truncate(path, 1<<30+1))
		}},
		{name: "for all to write", says: "everybody may write to it", put: func(t *testing.T, path string) {
			require.NoError(t, os.WriteFile(path, good, 0o600))
			require.NoError(t, os.Chmod(path, 0o666))
		}},
		{name: "no JSON", says: "unexpected end of JSON", put: put("{")},
		{name: "no run", says: "it has no run_id", put: put("{}")},
		{name: "another topic's event", says: `"phx_leave" is no event of a run`, put: put(`{"run_id":"r2","token":"t","events":[{"event":"phx_leave","payload":{}}]}`)},
		{name: "no payload", says: `the payload of "run:log" is no object`, put: put(`{"run_id":"r2","token":"t","events":[{"event":"run:log","payload":[]}]}`)},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			dir := filepath.Join(t.TempDir(), "spool[1]") // a pattern would not find it
			require.NoError(t, os.Mkdir(dir, 0o700))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "good.json"), good, 0o600))
			path := filepath.Join(dir, "odd.json")
			tt.put(t, path)
			all, err := readSpool(dir)
			require.ErrorContains(t, err, path+" is no spooled run: ")
			require.ErrorContains(t, err, tt.says)
			require.Len(t, all, 1)
			require.Equal(t, filepath.Join(dir, "good.json"), all[0].Path)
		})
	}
}

// readSpool returns what lies in a spool folder, by name, and what is wrong with the rest.
func readSpool(dir string) (all []Spooled, err error) {
	for spooled, wrong := range EachSpooled(dir) {
		if err = errors.Join(err, wrong); wrong == nil {
			all = append(all, *spooled)
		}
	}
	return all, err
}

func put(text string) func(t *testing.T, path string) {
	return func(t *testing.T, path string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
}

// Whoever can write to a folder can put anything into it, and take anything out. Guards against a worker that does not
// start with a folder that it always had, and against files that root is refused.
func TestWhoseSpoolFolderIsUsed(t *testing.T) {
	const me, root, other = 1000, 0, 1001
	for _, tt := range []struct {
		me, owner    int
		others, safe bool
	}{{me, me, false, true}, {me, me, true, false}, {me, root, false, true}, {me, root, true, false}, {me, other, false, false}, {root, other, false, true}, {root, other, true, false}} {
		require.Equal(t, tt.safe, folderDoubt(tt.me, tt.owner, tt.others) == "", tt)
	}
	for _, tt := range []struct {
		me, file int
		safe, ok bool
	}{
		{me, me, false, true},
		{me, root, false, true},
		{me, other, false, false},
		{me, other, true, true}, // the worker was another user's before
		{root, other, false, true},
	} {
		require.Equal(t, tt.ok, mayReadFile(tt.me, tt.file, tt.safe), tt)
	}
}

func TestCheckSpool(t *testing.T) {
	dir := t.TempDir()
	for mode, warns := range map[os.FileMode]bool{0o700: false, 0o755: false, 0o777: true, 0o777 | os.ModeSticky: true} {
		require.NoError(t, os.Chmod(dir, mode))
		warning := CheckSpool(dir)
		require.Equal(t, warns, strings.Contains(warning, "chmod go-w "+dir), fmt.Sprint(mode, warning))
	}
	require.Contains(t, CheckSpool(filepath.Join(dir, "none")), "no such file")
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Empty(t, entries, "a check leaves nothing behind")
}

// Guards against a folder of which the worker finds out that it is for reading only when a run is to be kept there.
func TestASpoolThatCannotBeWrittenIsWarnedOf(t *testing.T) {
	const readOnly = "/proc/self/fdinfo" // for root as well
	if _, err := os.Stat(readOnly); err != nil {
		t.Skip("there is no folder that nobody can write to: ", err)
	}
	require.Contains(t, CheckSpool(readOnly), "the spool folder "+readOnly+" cannot be written, and until it can what cannot be reported is lost: ")
}

// A Kubernetes volume is root's, and its files the worker's.
func TestRootResendsWhatAnotherUserHasSpooled(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can give files away")
	}
	dir := t.TempDir()
	require.NoError(t, os.Chmod(dir, 0o775))
	path := filepath.Join(dir, "r1.json")
	data, err := json.Marshal(Spooled{RunID: "r1", Token: "t", Events: []SpooledEvent{theEnd}})
	require.NoError(t, err)
	require.NoError(t, os.WriteFile(path, data, 0o600))
	require.NoError(t, os.Chown(path, 12345, -1))
	require.Equal(t, []string{"r1"}, spooledIDs(t, dir))
}

// Guards against tokens and data that a crash leaves behind, and against an empty file with a run's name.
func TestWhatWasLeftHalfWrittenIsRemovedOnceItIsOld(t *testing.T) {
	dir := t.TempDir()
	old := time.Now().Add(-25 * time.Hour)
	for name, at := range map[string]time.Time{".OLD.part": old, "old.json.part": old, ".NEW.part": time.Now(), "mine.part": old, "r.json": old} {
		require.NoError(t, os.WriteFile(filepath.Join(dir, name), []byte("{}"), 0o600))
		require.NoError(t, os.Chtimes(filepath.Join(dir, name), at, at))
	}
	require.NoError(t, (&Spooled{RunID: "r", Token: "t", Events: []SpooledEvent{theEnd}}).write(dir))
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	require.Len(t, names, 4)
	require.Subset(t, names, []string{".NEW.part", "mine.part", "r.json"})
	require.Regexp(t, `^r~[0-9tz]{16}~[a-z2-7]{26}\.json$`, names[3])
}

// Guards against a folder of which all is held in memory at once.
func TestASpoolIsReadRunByRun(t *testing.T) {
	dir := t.TempDir()
	for n := range 3 {
		data, err := json.Marshal(Spooled{RunID: fmt.Sprint("r", n), Token: "t", Events: []SpooledEvent{theEnd}})
		require.NoError(t, err)
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(n, ".json")), data, 0o600))
	}
	n := 0
	for s, err := range EachSpooled(dir) {
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint("r", n), s.RunID)
		if n++; n == 2 {
			break
		}
		require.NoError(t, os.Remove(filepath.Join(dir, fmt.Sprint(n, ".json"))), "not read yet")
		require.NoError(t, os.WriteFile(filepath.Join(dir, fmt.Sprint(n, ".json")), []byte(`{"run_id":"r1"}`), 0o600))
	}
	require.Equal(t, 2, n)
}

func TestEachSpooledNamesAFileThatIsNone(t *testing.T) {
	dir := t.TempDir()
	spoolRun(dir, "r1")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "odd.json"), []byte("{"), 0o600))
	all, err := readSpool(dir)
	require.ErrorContains(t, err, "odd.json is no spooled run")
	require.Len(t, all, 1)
	require.Equal(t, "r1", all[0].RunID)
}
