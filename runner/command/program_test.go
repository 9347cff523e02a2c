package command

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// The test binary is an engine itself when it is started with these arguments:
// program, "engine", then how it starts. What it does with a run is in the body
// of the first job: a script of one command a line.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == "engine" {
		beEngine(os.Args[2])
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == "worker" {
		beWorker(os.Args[2])
	}
	goleak.VerifyTestMain(m)
}

// program returns the arguments of an engine that starts in this way.
func program(start string) []string { return []string{os.Args[0], "engine", start} }

// beWorker is a worker that keeps a process, says its pid, and goes on until it is
// killed.
func beWorker(start string) {
	pool, err := NewPool(Config{Args: program(start)})
	if err != nil {
		os.Exit(1)
	}
	if _, err := pool.Versions(context.Background()); err != nil {
		os.Exit(2)
	}
	fmt.Println(pool.idle[0].cmd.Process.Pid)
	time.Sleep(time.Hour)
}

type testEngine struct {
	in   *bufio.Reader
	runs int
	held []byte // memory
	left string // what runs have left behind
}

func beEngine(start string) {
	e := &testEngine{in: bufio.NewReaderSize(os.Stdin, 1<<20)}
	switch word, rest, _ := strings.Cut(start, " "); word {
	case "ready":
		say(`{"type":"ready","versions":{"engine":"test 1.2","adaptor":["1.0","2.0"],"odd":{"n":1}}}`)
	case "mute": // hangs before it is ready, and does not care about its input
		time.Sleep(time.Hour)
	case "sleeper": // a child of a run, which minds no signal
		signal.Ignore(syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP)
		time.Sleep(time.Hour)
	case "exit":
		_, _ = fmt.Fprintln(os.Stderr, "no such module: left-pad")
		os.Exit(7)
	case "hello":
		say("hello")
		say(rest)
	case "only": // is ready only the nth time: n, and a file with a byte for each start
		nth, file, _ := strings.Cut(rest, " ")
		f, _ := os.OpenFile(file, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
		_, _ = f.WriteString("x")
		if starts, _ := os.ReadFile(file); strconv.Itoa(len(starts)) != nth {
			os.Exit(8)
		}
		say(`{"type":"ready"}`)
	case "flash": // is ready and dies
		say(`{"type":"ready"}`)
		os.Exit(3)
	case "stubborn": // does not end with its input
		say(`{"type":"ready"}`)
		_, _ = io.Copy(io.Discard, os.Stdin)
		time.Sleep(time.Hour)
	case "eater": // a child of a run
		eat(rest)
		time.Sleep(time.Hour)
	}
	for {
		line, err := e.in.ReadBytes('\n')
		if err != nil {
			return
		}
		e.serve(line)
	}
}

func (e *testEngine) serve(line []byte) {
	var m struct {
		Type    string
		Modules []string
		Run     struct {
			Plan struct{ Jobs []struct{ Body string } }
		}
	}
	if json.Unmarshal(line, &m) != nil {
		os.Exit(99)
	}
	switch m.Type {
	case "warm":
		loaded = append(loaded, m.Modules...)
		return
	case "run":
		e.runs++
		for command := range strings.Lines(m.Run.Plan.Jobs[0].Body) {
			e.do(strings.TrimSuffix(command, "\n"), line)
		}
	}
}

var loaded []string

func eat(mb string) []byte {
	n, _ := strconv.Atoi(mb)
	held := make([]byte, n<<20)
	for i := range held {
		held[i] = 1
	}
	return held
}

func say(line string) { _, _ = os.Stdout.WriteString(line + "\n") }

func sayLog(args ...any) {
	message, _ := json.Marshal(args)
	say(`{"type":"log","level":"info","source":"JOB","message":` + string(message) + `}`)
}

func (e *testEngine) do(command string, run []byte) {
	word, rest, _ := strings.Cut(command, " ")
	switch word {
	case "say":
		say(rest)
	case "unquote": // a line given as a Go string
		line, _ := strconv.Unquote(rest)
		say(line)
	case "write": // without a line break
		_, _ = os.Stdout.WriteString(rest)
	case "ok": // one step, which leaves rest
		say(`{"type":"step-start","step":"s","job":"a"}`)
		say(`{"type":"step-complete","step":"s","reason":"success","state":` + rest + `,"leaf":true}`)
		say(`{"type":"end","state":` + rest + `}`)
	case "twice": // the end and what follows it arrive as one
		_, _ = os.Stdout.WriteString("{\"type\":\"end\"}\n" + rest + "\n")
	case "who":
		cwd, _ := os.Getwd()
		sayLog(os.Getpid(), cwd, e.runs)
	case "env":
		sayLog(os.Environ())
	case "run":
		sayLog(json.RawMessage(run))
	case "leave": // something for the runs that come after
		say(`{"type":"log","source":"JOB","message":["` + e.left + `"]}`)
		e.left += rest
	case "loaded":
		sayLog(loaded)
	case "stderr":
		_, _ = fmt.Fprintln(os.Stderr, rest)
	case "hang":
		time.Sleep(time.Hour)
	case "deaf": // waits, and minds no message
		time.Sleep(time.Hour)
	case "await": // a message, and logs it
		line, _ := e.in.ReadBytes('\n')
		sayLog(json.RawMessage(bytes.TrimSpace(line)))
	case "fork":
		for i := range 3 {
			child := exec.Command(os.Args[0], "engine", "sleeper")
			child.Stdout = os.Stdout // holds the pipe
			if rest == "away" {
				child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
				switch i {
				case 1: // leaves the environment behind
					child.Env = []string{"A=1"}
				case 2: // leaves the folder
					child.Dir = "/"
				}
			}
			if err := child.Start(); err != nil {
				sayLog(err.Error())
				continue
			}
			sayLog(child.Process.Pid)
		}
	case "until": // there is a file of this name
		for _, err := os.Stat(rest); err != nil; _, err = os.Stat(rest) {
			time.Sleep(time.Millisecond)
		}
	case "late": // sends this soon, from behind
		time.AfterFunc(10*time.Millisecond, func() { say(rest) })
	case "eat": // so many MB
		e.held = eat(rest)
	case "feed": // so many MB to a child
		child := exec.Command(os.Args[0], "engine", "eater "+rest)
		child.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
		_ = child.Start()
		sayLog(child.Process.Pid)
	case "flood": // so many MB, in lines
		mb, _ := strconv.Atoi(rest)
		line := strings.Repeat("x", 1023) + "\n"
		for range mb << 10 {
			_, _ = os.Stdout.WriteString(line)
		}
	case "long": // a line of so many MB
		mb, _ := strconv.Atoi(rest)
		say(strings.Repeat("x", mb<<20))
	case "longlog": // a message of more than so many MB
		mb, _ := strconv.Atoi(rest)
		sayLog(strings.Repeat("x", mb<<20))
	case "floodlog": // without end, and keep count in a file
		f, _ := os.Create(rest)
		for n := 0; ; n++ {
			sayLog(strings.Repeat("x", 10<<10))
			_, _ = f.WriteAt([]byte(strconv.Itoa(n*10<<10)), 0)
		}
	case "file":
		_ = os.MkdirAll("locked/inner", 0o700)
		_ = os.WriteFile("locked/inner/f", []byte("x"), 0o600)
		_ = os.Chmod("locked", 0)
	case "close":
		_ = os.Stdout.Close()
	case "exit":
		code, _ := strconv.Atoi(rest)
		os.Exit(code)
	}
}
