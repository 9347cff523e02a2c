package fence

import (
	"encoding/json"
	"errors"
	"os/exec"
	"slices"
	"strings"
)

// Policy is what is left to a process. All paths are absolute. Where one is a link, or has links in it,
// what it leads to is meant. Where nothing is at a path, none is granted.
type Policy struct {
	// Read are the files, and the folders with all below, that it may read, besides what programs of
	// the system need of the system.
	Read []string
	// Write are the folders that it may read and write.
	Write []string
	// Execute are the files that it may become: the program, and what the program is
	// linked with.
	Execute []string
	// MaxFile is the size of the largest file that it may write, in bytes. 0 is no bound.
	MaxFile uint64
	// Require has the start fail when a fence cannot be put up.
	Require bool
}

// Settings are files by which a process finds hosts. It can read those that are there when it
// starts. One that takes the place of another later is closed to it.
var Settings = []string{"/etc/resolv.conf", "/etc/hosts"}

// State is what is known of a fence.
type State struct {
	// Name is one of Names.
	Name string `json:"name"`
	// Up reports that a process was started and found itself within the fence.
	Up bool `json:"up"`
	// Why says why not.
	Why string `json:"why,omitempty"`
}

// The fences, by what they keep a process from.
const (
	Files       = "files"       // of others: it reads and writes what its policy says
	Signals     = "signals"     // to any process but itself
	Processes   = "processes"   // of its own, and the memory of others
	Sockets     = "sockets"     // that listen, are in the file system, or bare
	Privileges  = "privileges"  // of root, and by executing programs that have some
	Cores       = "cores"       // files with its memory when it crashes
	Sizes       = "sizes"       // of files beyond a bound
	Descriptors = "descriptors" // that were left open in the process that started it
)

// Names returns all fences.
func Names() []string {
	return []string{Files, Signals, Processes, Sockets, Privileges, Cores, Sizes, Descriptors}
}

// Down returns the fences that are not up.
func Down(states []State) []State {
	return slices.DeleteFunc(slices.Clone(states), func(s State) bool { return s.Up })
}

// Require returns an error that names the fences that are not up, and why. Those that are
// down for the same reason are named together.
func Require(states []State) error {
	var reasons []string
	byReason := make(map[string][]string)
	for _, s := range Down(states) {
		if byReason[s.Why] == nil {
			reasons = append(reasons, s.Why)
		}
		byReason[s.Why] = append(byReason[s.Why], s.Name)
	}
	if len(reasons) == 0 {
		return nil
	}
	for i, why := range reasons {
		reasons[i] = strings.Join(byReason[why], ", ") + " (" + why + ")"
	}
	return errors.New("fences around the processes of the engine are missing: " + strings.Join(reasons, "; "))
}

// allDown returns every fence as down, for one reason.
func allDown(why string) []State {
	var states []State
	for _, name := range Names() {
		states = append(states, State{Name: name, Why: why})
	}
	return states
}

// The names under which this program starts itself.
const (
	stepName  = "phxworker-fence"
	probeName = "phxworker-probe"
)

// Wrap has a command that was not started go through the step that puts up the
// fences. Where there are none to be had on this system, it changes nothing.
func (p Policy) Wrap(cmd *exec.Cmd) error {
	if !Supported {
		return nil
	}
	text, err := json.Marshal(p)
	if err != nil {
		return err
	}
	cmd.Args = append([]string{stepName, string(text), cmd.Path}, cmd.Args...)
	cmd.Path = self
	return nil
}
