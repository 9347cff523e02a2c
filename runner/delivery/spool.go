package delivery

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/phxworker/phxworker/channel"
	"github.com/phxworker/phxworker/claim"
	"github.com/phxworker/phxworker/internal/owned"
)

// Spooled is what could not be reported of a run: the events that the server has not acknowledged, oldest first. It
// is kept as a JSON file of its own in the folder [Config.Spool], <run id>~<time>~<random>.json as far as the id can stand
// in a name, readable by its owner only, for it holds the run's token.
type Spooled struct {
	RunID string `json:"run_id"`
	Token string `json:"token"`
	// Cause is why the run was given up.
	Cause string    `json:"cause"`
	At    time.Time `json:"at"`
	// Delivered is how many events the server had taken before.
	Delivered int            `json:"delivered"`
	Events    []SpooledEvent `json:"events"`
	// Path is where it was read from.
	Path string `json:"-"`
}

// SpooledEvent is one push that is still to be made.
type SpooledEvent struct {
	Event   string          `json:"event"`
	Payload json.RawMessage `json:"payload"`
	// Sent is whether a copy was pushed of which nobody knows whether it arrived.
	Sent bool `json:"sent,omitempty"`
}

// GiveUp says what of a run could not be reported, and why, and spools it if there is a folder for that. It is called
// once, when [Outbox.Deliver] has returned the cause, or instead of it if the topic could not be joined.
func (o *Outbox) GiveUp(cause error) {
	if o.refused != nil { // it was counted then
		o.log.Error("the end of the run was refused; the server does not have it from this worker", "error", cause)
		if o.refusedEnd != nil {
			o.spool(cause, []event{o.refusedEnd})
		}
		return
	}
	events := make(map[string]int)
	for _, e := range o.queue {
		events[e.name()]++
		o.delivery.undeliver(e)
	}
	what := "the run was given up: the server cannot be told how it ended"
	if o.topic == nil {
		what = "cannot join the run; the server cannot be told how it ended"
	}
	o.log.Error(what,
		"error", cause, "delivered", o.delivered, "undelivered", len(o.queue), "events", events)
	o.spool(cause, o.queue)
}

// spool keeps the events in a file, if there is a folder for that.
func (o *Outbox) spool(cause error, events []event) {
	if o.delivery.cfg.Spool == "" {
		return
	}
	spooled := Spooled{RunID: o.run.ID, Token: o.run.Token, Cause: cause.Error(), At: time.Now(), Delivered: o.delivered}
	for _, e := range events {
		payload, err := o.payloadOf(e)
		if err != nil {
			o.log.Warn("an event cannot be spooled", "event", e.name(), "error", err)
			continue
		}
		spooled.Events = append(spooled.Events, SpooledEvent{Event: e.name(), Payload: payload, Sent: e.state().unknown > 0})
	}
	if err := spooled.write(o.delivery.cfg.Spool); err != nil {
		o.log.Error("what was not delivered could not be spooled", "error", err)
		return
	}
	o.log.Warn("what was not delivered was spooled", "path", spooled.Path)
}

// payloadOf returns what would have been offered to the server. A panic in it is a mistake of ours, and must not keep
// the other events from being spooled.
func (o *Outbox) payloadOf(e event) (payload json.RawMessage, err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %s", o.Scrub(fmt.Sprint(v)))
		}
	}()
	for {
		if payload, err = json.Marshal(e.payload()); err == nil {
			return payload, nil
		}
		if less, _ := e.lessen(err); !less {
			return nil, err
		}
	}
}

// Resend reports what was spooled, and removes its file when the server has all of it. An event that the server refuses
// does not keep the others from being sent, the end of the run least of all; but the file stays, with what the server
// does not have, and the error is the last refusal. The server takes it only while the run's token is good.
func (s *Spooled) Resend(ctx context.Context, socket *channel.Socket) error {
	topic, err := socket.Join(ctx, "run:"+s.RunID, map[string]string{"token": s.Token})
	if err != nil {
		return err
	}
	defer func() { _ = topic.Leave(ctx) }()
	log := slog.New(slog.DiscardHandler)
	box := New(Config{MessageTimeout: time.Minute}, log).Open(claim.Run{ID: s.RunID, Token: s.Token, Claimed: time.Now()}, nil, log)
	box.topic = topic
	var rest []SpooledEvent
	for i, e := range s.Events {
		again := &fixed{sending{event: e.Event}, e.Payload}
		if e.Sent {
			again.unknown = 1
		}
		refusal, ended := box.deliver(ctx, again)
		e.Sent = again.unknown > 0
		if refusal != nil || ended != nil {
			rest, err = append(rest, e), cmp.Or(ended, refusal)
		}
		if ended != nil {
			rest = append(rest, s.Events[i+1:]...)
			break
		}
	}
	if len(rest) == 0 {
		return os.Remove(s.Path)
	}
	s.Delivered += len(s.Events) - len(rest)
	s.Events = rest
	return errors.Join(err, s.write(filepath.Dir(s.Path)))
}

// maxSpoolFile is the size of the largest file that is read back, in bytes. What is spooled of a run is some outboxes
// full at most.
const maxSpoolFile = 1 << 30

// spoolFolder is an opened spool folder. Nothing in it leads out of it.
type spoolFolder struct {
	*os.Root

	// doubt is who else can put something into it, empty if nobody can; see folderDoubt.
	doubt string
}

func openSpoolFolder(dir string) (*spoolFolder, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	info, err := root.Stat(".")
	if err != nil {
		_ = root.Close()
		return nil, err
	}
	folder := &spoolFolder{Root: root, doubt: folderDoubt(os.Geteuid(), owned.By(info), owned.WrittenByOthers(dir, info))}
	folder.sweep()
	return folder, nil
}

// folderDoubt says who else can put something into a user's folder, and take out what is in it; empty if nobody can
// but root and the owner that root has given it. Many a mounted folder is so, and a run that is spooled there is
// better than one that is lost.
func folderDoubt(me, owner int, othersWrite bool) string {
	switch {
	case owner != me && owner != 0 && me != 0:
		return fmt.Sprintf("it belongs to the user %d, and this is %d", owner, me)
	case othersWrite:
		return "there are others who may write to it"
	}
	return ""
}

// mayReadFile reports whether a user is to believe a file of that owner's: his own and root's, and any in a folder
// that is safe, as when the worker has run under another user before. Who is root decides for himself.
func mayReadFile(me, file int, safe bool) bool { return me == 0 || file == me || file == 0 || safe }

// CheckSpool says what is doubtful about a folder as [Config.Spool], empty if nothing is.
func CheckSpool(dir string) (warning string) {
	folder, err := openSpoolFolder(dir)
	if err != nil {
		return fmt.Sprintf("the spool folder cannot be opened, and until it can what cannot be reported is lost: %v", err)
	}
	defer folder.Close()
	part, err := folder.writePart(&Spooled{})
	if err != nil {
		return fmt.Sprintf("the spool folder %s cannot be written, and until it can what cannot be reported is lost: %v", dir, err)
	}
	_ = folder.Remove(part)
	if folder.doubt != "" {
		return fmt.Sprintf("the spool folder %s is not the worker's alone, so that what is in it can be removed: %s; chown it, or chmod go-w %s", dir, folder.doubt, dir)
	}
	return ""
}

// sweep removes what was left half written, when its run's token is over whatever it said. It does what it can: the
// folder may be for reading only.
func (f *spoolFolder) sweep() {
	entries, _ := fs.ReadDir(f.FS(), ".")
	for _, entry := range entries {
		name := entry.Name()
		if !partName.MatchString(name) {
			continue
		}
		info, err := entry.Info()
		if err == nil && info.Mode().IsRegular() && owned.By(info) == os.Geteuid() && time.Since(info.ModTime()) > untoldLife {
			_ = f.Remove(name)
		}
	}
}

// partName is what is being written, by this version or an earlier one.
var partName = regexp.MustCompile(`^\..*\.part$|\.json\.part$`)

// spoolName makes a file name of a run's id, which the server chose, for people. By the time, the files of several attempts
// at a run are read in their order; what is random is what no other file has.
func spoolName(runID string, at time.Time) string {
	readable := strings.Trim(strings.Map(func(c rune) rune {
		if c == '-' || c >= '0' && c <= '9' || c >= 'a' && c <= 'z' {
			return c
		}
		return '_'
	}, strings.ToLower(runID)), "_-")
	return cmp.Or(readable[:min(len(readable), 60)], "run") + at.UTC().Format("~20060102t150405z~") + strings.ToLower(rand.Text()) + ".json"
}

// write writes the file into the folder: where it was, or under a name of its own.
func (s *Spooled) write(dir string) error {
	folder, err := openSpoolFolder(dir)
	if err != nil {
		return err
	}
	defer folder.Close()
	name := spoolName(s.RunID, s.At)
	if s.Path != "" {
		name = filepath.Base(s.Path)
	}
	part, err := folder.writePart(s)
	if err != nil {
		return err
	}
	if err := folder.Rename(part, name); err != nil {
		return errors.Join(err, folder.Remove(part))
	}
	s.Path = filepath.Join(dir, name)
	return nil
}

// writePart writes a file under a name that nobody could know. With its own name, it is there whole or not at all:
// the worker may be about to end, and the machine as well.
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
		return "", errors.Join(err, f.Remove(name))
	}
	return name, nil
}

// EachSpooled reads what lies in a spool folder, run by run, by name: of one run, the oldest first. What is no spooled run comes as an error, and
// so does a folder that cannot be read.
func EachSpooled(dir string) iter.Seq2[*Spooled, error] {
	return func(yield func(*Spooled, error) bool) {
		var entries []fs.DirEntry
		folder, err := openSpoolFolder(dir)
		if err == nil {
			defer folder.Close()
			entries, err = fs.ReadDir(folder.FS(), ".")
		}
		if err != nil {
			yield(nil, err)
			return
		}
		for _, entry := range entries {
			if filepath.Ext(entry.Name()) == ".json" && !yield(folder.read(filepath.Join(dir, entry.Name()))) {
				return
			}
		}
	}
}

func (f *spoolFolder) read(path string) (*Spooled, error) {
	spooled := &Spooled{Path: path}
	data, err := f.readFile(filepath.Base(path))
	if err == nil {
		err = json.Unmarshal(data, spooled)
	}
	if err == nil {
		err = spooled.check()
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no spooled run: %w", path, err)
	}
	return spooled, nil
}

// readFile reads a file, and nothing else that may be in its place: it can be anything by the time that it is opened.
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
	file, err := f.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // a pipe in its place must not keep it waiting
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
	case !mayReadFile(os.Geteuid(), owned.By(info), f.doubt == ""):
		return nil, fmt.Errorf("it belongs to the user %d, and this is %d, who is not alone with its folder; chown the file, or resend it as root", owned.By(info), os.Geteuid())
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
