package openfn

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/phxworker/phxworker/internal/runtest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/runner"
)

// A job has no process, but finds it through a function that was made outside.
const escape = "const p = setTimeout.constructor('return process')(); const get = p.getBuiltinModule; "

// What a job that gets out of its sandbox can do to the machine, and to the
// worker: nothing but to end its own run. docs/security.md lists the same.
func TestWhatAHostileJobGets(t *testing.T) {
	long(t)
	b := newBench(t, Config{})
	t.Setenv("WORKER_SECRET", "not for jobs")
	outside := filepath.Join(t.TempDir(), "outside")
	require.NoError(t, os.WriteFile(outside, []byte("not for jobs"), 0o600))
	const denied = "Access to this API has been restricted"
	tests := []struct{ name, body, message string }{
		{"reads a file", "get('fs').readFileSync('/etc/passwd')", denied},
		{"reads a file of the worker's user", "get('fs').readFileSync(" + strconv.Quote(outside) + ")", denied},
		{"reads the worker's environment", "get('fs').readFileSync('/proc/' + p.ppid + '/environ')", denied},
		{"writes a file", "get('fs').writeFileSync(" + strconv.Quote(outside) + ", 'x')", denied},
		{"writes among the adaptors", "get('fs').writeFileSync(" + strconv.Quote(filepath.Join(repo, "x")) + ", 'x')", denied},
		{"writes a report", "p.report.writeReport('x')", "TypeError: Cannot read properties of undefined (reading 'writeReport')"},
		{"forks", "get('child_process').fork('x')", "ChildProcess.spawn is not allowed"},
		{"starts a thread", "new (get('worker_threads').Worker)('1', { eval: true })", denied},
		{"opens the inspector", "get('inspector').open(0)", denied},
		{"has V8 write a file", "get('v8').setFlagsFromString('--trace-turbo')", "v8.setFlagsFromString is not allowed"},
		{"changes the worker's priority", "get('os').setPriority(p.ppid, 19)", "os.setPriority is not allowed"},
		{"makes a socket", "get('net').createServer().listen(" + strconv.Quote(filepath.Join(repo, "socket")) + ")", "socket.bind is not allowed"},
		{"goes to another folder", "p.chdir(" + strconv.Quote(repo) + ")", "process.chdir is not allowed"},
		{"traces events", "get('trace_events').createTracing({ categories: ['v8'] })", "trace_events.createTracing is not allowed"},
		{"makes a link", "get('fs').symlinkSync('/', 'root')", "fs.symlinkSync is not allowed"},
		{"makes a link later", "return get('fs/promises').symlink('/', 'root')", "fs.promises.symlink is not allowed"},
		{"copies a file from outside", "get('fs').cpSync('/etc/passwd', p.cwd() + '/f')", denied},
		{"changes the rights of an adaptor's file", "return get('fs').promises.open(" + strconv.Quote(filepath.Join(repo, "@openfn")) + ").then(f => f.chmod(0o777))", "FileHandle.chmod is not allowed"},
		{"opens a database", "new (get('node:sqlite').DatabaseSync)(" + strconv.Quote(outside+".db") + ")", "TypeError: Cannot read properties of undefined (reading 'DatabaseSync')"},
		{"kills the worker", "p.kill(p.ppid, 9)", "process.kill is not allowed"},
	}
	var body strings.Builder
	body.WriteString("fn(async s => { " + escape + " const data = {}; const attempt = async (name, f) => { try { await f(); data[name] = 'done'; } catch (e) { data[name] = e.name === 'Error' ? e.message : String(e); } };\n")
	for _, tt := range tests {
		body.WriteString("await attempt(" + strconv.Quote(tt.name) + ", () => { " + tt.body + " });\n")
	}
	body.WriteString("return { data }; })")
	record := b.Job(body.String()) // all in one process: nothing of it harms the next attempt
	requireSuccess(t, record)
	var said struct{ Data map[string]string }
	require.NoError(t, json.Unmarshal(record.FinalState, &said))
	for _, tt := range tests {
		require.True(t, strings.HasPrefix(said.Data[tt.name], tt.message), "%s: %s", tt.name, said.Data[tt.name]) // later versions of Node say more
	}
	content, err := os.ReadFile(outside)
	require.NoError(t, err)
	require.Equal(t, "not for jobs", string(content))

	record = b.Job("fn(s => { " + escape + tests[0].body + "; return s; })")
	require.Equal(t, "fail", record.Reason)
	require.True(t, strings.HasPrefix(record.ErrorMessage, denied), record.ErrorMessage)
	for _, end := range []string{"p.exit(3)", "p.abort()"} {
		record = b.Job("fn(s => { " + escape + end + "; return s; })")
		require.Equal(t, []string{"crash", "ExitError"}, []string{record.Reason, record.ErrorType}, end)
	}
	record = b.Job("fn(s => { " + escape + "return { ...s, data: { secret: p.env.WORKER_SECRET ?? null, home: p.env.HOME, tmp: get('os').tmpdir(), cwd: p.cwd() } }; })")
	var state struct {
		Data struct{ Secret, Home, Tmp, Cwd string }
	}
	require.NoError(t, json.Unmarshal(record.FinalState, &state))
	require.Empty(t, state.Data.Secret)
	for _, dir := range []string{state.Data.Home, state.Data.Tmp, state.Data.Cwd} {
		require.NotEqual(t, os.Getenv("HOME"), dir)
		gone := func() bool { _, err := os.Stat(dir); return os.IsNotExist(err) }
		require.Eventually(t, gone, 10*time.Second, time.Millisecond, "it goes with the run")
	}
	require.Equal(t, "success", b.Job("fn(s => s)").Reason, "the next run runs")
}

// What a job finds behind Node's own functions, and what tells of files outside: each
// attempt ends with an error that is the same whether there is such a file or not.
func TestWhatAJobReachesBehindNode(t *testing.T) {
	b := newBench(t, Config{})
	there := filepath.Join(t.TempDir(), "there.js")
	require.NoError(t, os.WriteFile(there, nil, 0o600))
	missing := there + "x"
	socket, err := new(net.ListenConfig).Listen(t.Context(), "unix", filepath.Join(t.TempDir(), "s"))
	require.NoError(t, err)
	defer socket.Close()
	const denied, noAccess = "ERR_ACCESS_DENIED", "EACCES"
	tests := []struct{ name, body, code string }{
		{"the worker, by a handle", "new (get('child_process').ChildProcess)()._handle.kill(0)", denied},
		{"a program, by a handle", "new (get('child_process').ChildProcess)()._handle.spawn({ file: '/bin/true' })", denied},
		{"a channel to a parent", "get('child_process')._forkChild(0)", denied},
		{"which processes there are", "get('os').getPriority(p.ppid)", denied},
		{"a file that is there, by its real path", "get('fs').realpathSync(there)", denied},
		{"a file that is missing, by its real path", "get('fs').realpathSync(missing)", denied},
		{"by a path that leads out", "get('fs').realpathSync(p.cwd() + '/../../..' + there)", denied},
		{"by an address", "get('fs').realpathSync(new (get('url').URL)('file://' + there))", denied},
		{"by bytes", "get('fs').realpathSync(get('buffer').Buffer.from(missing))", denied},
		{"as a module that is there", "get('module').createRequire(p.argv[1]).resolve(there)", denied},
		{"as a module that is missing", "get('module').createRequire(p.argv[1]).resolve(missing)", denied},
		{"beside another module, there", "get('module').createRequire(there)('./there.js')", "MODULE_NOT_FOUND"},
		{"beside another module, missing", "get('module').createRequire(there)('./missing.js')", "MODULE_NOT_FOUND"},
		{"a file that is there, by how modules look for files", "return String(get('module')._stat?.(there) ?? -2)", "-2"},
		{"a file that is missing, by how modules look for files", "return String(get('module')._stat?.(missing) ?? -2)", "-2"},
		{"what is in a package", "get('module')._readPackage(there)", denied},
		{"as a package's main that is there", "main('a', there)", "MODULE_NOT_FOUND"},
		{"as a package's main that is missing", "main('b', missing)", "MODULE_NOT_FOUND"},
		{"a socket in the file system", "return error(get('net').connect(socket))", noAccess},
		{"a server", "return error(get('net').createServer().listen(0))", noAccess},
		{"a server at an address", "return error(get('net').createServer().listen(0, '127.0.0.1'))", noAccess},
		{"a web server", "return error(get('http').createServer().listen(0))", noAccess},
		{"datagrams at a port", "return error(get('dgram').createSocket('udp4').bind(40123))", noAccess},
		{"datagrams at a port of the system's", "const u = get('dgram').createSocket('udp4'); return new Promise(r => u.bind(0, () => { u.close(); r('none'); }))", "none"},
		{"WebAssembly's files", "new (get('wasi').WASI)({ version: 'preview1', preopens: { '/': '/' } })", denied},
		{"the inspector", "new (get('inspector').Session)().connect()", denied},
		{"a program's test", "get('cluster').fork()", denied},
	}
	var body strings.Builder
	body.WriteString("fn(async () => { " + escape + "const error = o => new Promise(r => o.on('error', r));")
	body.WriteString(" const main = (name, file) => { get('fs').mkdirSync(name); get('fs').writeFileSync(name + '/package.json', JSON.stringify({ main: '../../../../../../../../..' + file })); get('module').createRequire(p.cwd() + '/x.js')('./' + name); };")
	for name, path := range map[string]string{"there": there, "missing": missing, "socket": socket.Addr().String()} {
		body.WriteString(" const " + name + " = " + strconv.Quote(path) + ";")
	}
	body.WriteString(" const data = {}; const attempt = async (name, f) => { try { const v = await f(); data[name] = v?.code ?? v ?? 'reached'; } catch (e) { data[name] = e.code ?? String(e); } };\n")
	want := make(map[string]string)
	for _, tt := range tests {
		body.WriteString("await attempt(" + strconv.Quote(tt.name) + ", () => { " + tt.body + " });\n")
		want[tt.name] = tt.code
	}
	body.WriteString("return { data }; })")
	record := b.Job(body.String())
	requireSuccess(t, record)
	var state struct{ Data map[string]string }
	require.NoError(t, json.Unmarshal(record.FinalState, &state))
	require.Equal(t, want, state.Data)
}

// Guards against a job that steers its own worker, by any address of this machine, and
// with what it can change of Node's.
func TestAJobCannotConnectToTheWorker(t *testing.T) {
	var asked atomic.Int32
	web := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { asked.Add(1) }))
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", ":0")
	require.NoError(t, err)
	web.Listener = listener
	web.Start()
	t.Cleanup(web.Close)
	port := listener.Addr().(*net.TCPAddr).Port
	hosts := []string{"127.0.0.1", "127.9.8.7", "localhost", "0.0.0.0", "::1", "::", "::ffff:127.0.0.1", "::ffff:7f00:1", "0x7f.1", "2130706433"}
	addresses, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range addresses {
		if ip := a.(*net.IPNet).IP; !ip.IsLinkLocalUnicast() {
			hosts = append(hosts, ip.String())
		}
	}
	list, err := json.Marshal(hosts)
	require.NoError(t, err)
	body := "fn(async s => { " + escape + "const net = get('net'), data = {}; String.prototype.split = Array.prototype.some = () => false; RegExp.prototype.test = () => true; " +
		"try { net.BlockList.prototype.check = () => false; net.SocketAddress.isSocketAddress = () => true; net.isIPv6 = () => false; } catch {} " +
		"for (const host of " + string(list) + ") { " +
		"data[host] = await new Promise(r => { const c = net.connect(" + strconv.Itoa(port) + ", host); c.on('error', e => r(e.code ?? e.errors?.[0]?.code)); c.on('connect', () => { c.destroy(); r('connected'); }); }); } return { data }; })"
	fetch := "fn(s => { " + escape + "return new Promise(r => get('http').get('" + "http://localhost:" + strconv.Itoa(port) + "', () => r({ data: 'connected' })).on('error', e => r({ data: e.code ?? e.errors?.[0]?.code }))); })"

	open := newBench(t, Config{})
	require.JSONEq(t, `{"data":"connected"}`, string(open.Job(fetch).FinalState))
	require.EqualValues(t, 1, asked.Load())

	b := newBench(t, Config{OwnPort: func() int { return port }})
	record := b.Job(fetch)
	require.JSONEq(t, `{"data":"EACCES"}`, string(record.FinalState), record.ErrorMessage)
	require.Equal(t, 1, strings.Count(strings.Join(runtest.Lines(t, record, "R/T"), "\n"), "Connecting to the worker itself is not allowed"))
	lift := "const path = p.argv[1], own = n => { try { get('module').createRequire(path)(n).forbid(0); } catch {} }; " + // a guard is only as good as who can lift it
		"['./own.mjs', path].forEach(own); for (const m of Object.values(get('module')._cache)) { try { m.exports.forbid(0); } catch {} } "
	record = b.Job(strings.Replace(fetch, escape, escape+lift, 1))
	require.JSONEq(t, `{"data":"EACCES"}`, string(record.FinalState), record.ErrorMessage)
	forge := "const J = setTimeout.constructor('return JSON')(), js = J.stringify; J.stringify = (v, ...a) => js(v?.type === 'step-start' ? { type: 'log', level: 'info', source: 'JOB', message: [] } : v, ...a); " + // a run without a port, of which nothing is told
		"p.stdin.push(js({ type: 'run', run: { plan: { id: 'x', workflow: { steps: [{ id: 'a', expression: 'export default [() => new Promise(() => {})]', next: {} }] }, options: { start: 'a' } }, options: { meta: {} } } }) + '\\n'); await new Promise(r => setTimeout(r, 50)); J.stringify = js; "
	record = b.Job(strings.Replace(fetch, "fn(s => { "+escape, "fn(async s => { "+escape+forge, 1))
	require.JSONEq(t, `{"data":"EACCES"}`, string(record.FinalState), record.ErrorMessage)
	record = b.Job(body)
	requireSuccess(t, record)
	var state struct{ Data map[string]string }
	require.NoError(t, json.Unmarshal(record.FinalState, &state))
	for _, host := range hosts {
		require.Equal(t, "EACCES", state.Data[host], host)
	}
	require.EqualValues(t, 1, asked.Load())
}

func TestALoopIsKilledAtTheTimeOut(t *testing.T) {
	b := newBench(t, Config{})
	for _, body := range []string{"fn(() => { while (true); })", "fn(() => new Promise(() => setInterval(() => {}, 1000)))"} {
		var record mockserver.RunRecord
		limit := time.Second
		for !began(record) { // a busy machine takes longer to begin
			require.Less(t, limit, time.Minute)
			limit *= 2
			record = b.Run(t.Context(), runner.Limits{RunTimeout: limit}, runtest.OneJob(body))
			require.Equal(t, []string{"kill", "TimeoutError"}, []string{record.Reason, record.ErrorType})
		}
		require.Equal(t, fmt.Sprintf("Workflow failed to return within %dms", limit.Milliseconds()), record.ErrorMessage)
	}
}

func TestMemoryThatRunsOutEndsTheRun(t *testing.T) {
	long(t)
	b := newBench(t, Config{MemoryMB: 200})
	for name, body := range map[string]string{
		"heap":    "fn(() => { const all = []; while (true) all.push(new Array(1e5).fill({})); })",
		"buffers": "fn(async () => { const all = []; while (true) { all.push(Buffer.alloc(1e7, 1)); await new Promise(r => setTimeout(r, 1)); } })",
	} {
		t.Run(name, func(t *testing.T) {
			b.T = t
			record := b.Run(t.Context(), runner.Limits{MemoryMB: 200}, runtest.OneJob(body))
			require.Equal(t, []string{"kill", "OOMError", "Run exceeded maximum memory usage"}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
		})
	}
}

// What a run keeps in its temporary folder is bounded: one file by the kernel, all of them by
// a watch, also those that were removed while they were open.
func TestTemporaryFilesThatAreTooLargeEndTheRun(t *testing.T) {
	b := newBench(t, Config{TempMB: 20})
	record := b.Job("fn(s => { " + escape + "get('fs').truncateSync(get('fs').writeFileSync('f', 'x') ?? 'f', 30 << 20); return s; })")
	require.Equal(t, "fail", record.Reason)
	require.Contains(t, record.ErrorMessage, "EFBIG")
	for name, made := range map[string]string{
		"many files": "fs.writeFileSync('f' + i, full)", "removed files": "fs.writeSync(fs.openSync('f', 'w'), full); fs.unlinkSync('f')",
		"hidden files": "fs.mkdirSync('d' + i); fs.writeFileSync('d' + i + '/f', full); fs.chmodSync('d' + i, 0)",
	} {
		t.Run(name, func(t *testing.T) {
			b.T = t
			record := b.Job("fn(() => { " + escape + "const fs = get('fs'), full = new Uint8Array(15 << 20); for (let i = 0; i < 2; i++) { " + made + " } return new Promise(() => setTimeout(() => {}, 60_000)); })")
			require.Equal(t, []string{"kill", "DiskError", "Run exceeded maximum size of temporary files (20 MB)"}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
		})
	}
}

// The same in a process that has had a run before.
func TestMemoryThatRunsOutInAReusedProcessEndsTheRun(t *testing.T) {
	long(t)
	b := newBench(t, Config{MemoryMB: 200, Reuse: 5})
	require.Equal(t, "success", b.Job("fn(s => s)", ofOneProject).Reason)
	record := b.Run(t.Context(), runner.Limits{MemoryMB: 200}, runtest.OneJob("fn(() => { const all = []; while (true) all.push(new Array(1e5).fill({})); })", ofOneProject))
	require.Equal(t, "OOMError", record.ErrorType)
}

// Guards against a plan's limit above the worker's that has no effect on the heap.
func TestAPlanMayHaveMoreMemoryThanTheWorkersLimit(t *testing.T) {
	b := newBench(t, Config{MemoryMB: 100, Spares: 1, Reuse: 5})
	const body = "fn(() => { const all = []; for (let i = 0; i < 200; i++) all.push(new Array(131072).fill(i + 0.5)); return { data: all.length }; })" // a MB each
	for range 2 {
		record := b.Run(t.Context(), runner.Limits{MemoryMB: 100}, runtest.OneJob(body, `"options":{"run_memory_limit_mb":600}`))
		require.JSONEq(t, `{"data":200}`, string(record.FinalState), record.ErrorMessage)
	}
	require.Equal(t, "OOMError", b.Run(t.Context(), runner.Limits{MemoryMB: 100}, runtest.OneJob(body)).ErrorType)
	awaitProcesses(t, b.Engine.(*Engine), 1)
}

// A flood of lines is held back by what the server takes, and the run can be
// stopped meanwhile.
func TestAFloodOfLinesIsHeldBack(t *testing.T) {
	b := newBench(t, Config{})
	var record mockserver.RunRecord
	for limit := time.Second; len(runtest.Lines(t, record, "JOB")) == 0; limit *= 2 { // a busy machine takes longer to begin
		require.Less(t, limit, time.Minute)
		record = b.Run(t.Context(), runner.Limits{RunTimeout: limit}, runtest.OneJob("fn(() => { while (true) console.log('x'.repeat(10000)); })"))
		require.Equal(t, "TimeoutError", record.ErrorType)
	}
}

func TestAStopCancelsTheRun(t *testing.T) {
	b := newBench(t, Config{})
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	run := runtest.OneJob("fn(() => new Promise(r => setTimeout(r, 1e6)))")
	var plan struct{ ID string }
	require.NoError(t, json.Unmarshal(run.Plan, &plan))
	ended := make(chan mockserver.RunRecord)
	go func() { ended <- b.Run(ctx, runner.Limits{}, run) }()
	require.Eventually(t, func() bool {
		record, known := b.Server.Inspect(plan.ID)
		return known && began(record)
	}, time.Minute, 5*time.Millisecond)
	cancel()
	require.Equal(t, "cancel", (<-ended).Reason)
}

// began reports whether a step of the run was begun.
func began(record mockserver.RunRecord) bool {
	return slices.ContainsFunc(record.Events, func(e mockserver.Event) bool { return e.Event == "step:start" })
}

// Guards against an error that nobody caught in a process that is used again: its
// run may still be going on there, and report its steps as the next one's.
func TestAProcessWithAnUncaughtErrorIsNotReused(t *testing.T) {
	b := newBench(t, Config{Reuse: 10})
	record := b.Job("fn(s => new Promise(r => { setTimeout(() => { throw new Error('late'); }, 1); setTimeout(() => r({ data: 'of the first' }), 50); }))", ofOneProject)
	require.Equal(t, "ExecutionError", record.ErrorType)
	for range 3 {
		record = b.Job("fn(s => new Promise(r => setTimeout(() => r({ data: 'of the next' }), 50)))", ofOneProject)
		require.JSONEq(t, `{"data":"of the next"}`, string(record.FinalState))
	}
}

// Guards against what jobs put into errors where texts belong, and against lines
// that have no form in JSON.
func TestOddErrorsAndLines(t *testing.T) {
	long(t)
	b := newBench(t, Config{})
	record := b.Job("fn(() => ({ errors: { a: { name: 5, message: { x: 1 } } } }))")
	require.Equal(t, []string{"fail", "5", `{"x":1}`}, []string{record.Reason, record.ErrorType, record.ErrorMessage})
	record = b.Job(`fn(s => { const o = { n: 1n }; o.o = o; console.log(o); console.log('a\ud800'); return s; })`)
	require.Equal(t, "success", record.Reason, record.ErrorMessage)
	require.Equal(t, []string{`{"n":"1","o":"[Circular]"}`, "\"a\uFFFD\""}, runtest.Lines(t, record, "JOB"))
}

// What one run leaves in the globals of Node, the next does not find.
func TestNoRunSeesAnothersGlobals(t *testing.T) {
	long(t)
	b := newBench(t, Config{Spares: 1})
	const body = "fn(s => { " + escape + "p.seen = (p.seen ?? 0) + 1; return { ...s, data: p.seen }; })"
	for range 3 {
		require.JSONEq(t, `{"data":1}`, string(b.Job(body).FinalState))
	}
	reused := newBench(t, Config{Reuse: 3})
	for i := range 4 {
		want := `{"data":` + strconv.Itoa(i%3+1) + `}`
		require.JSONEq(t, want, string(reused.Job(body, ofOneProject).FinalState), "reuse is what it says")
	}
}

// Guards against a run that takes the credentials of a later one of another project, by
// what it has left in the process.
func TestNoProjectSeesAnothersGlobals(t *testing.T) {
	b := newBench(t, Config{Reuse: 10, Spares: 1})
	const body = "fn(s => { " + escape + "p.seen = (p.seen ?? '') + s.configuration.key; return { data: p.seen }; })"
	for _, run := range []struct{ owner, want string }{
		{owner: `"project_id":"a"`, want: "k"},
		{owner: `"project_id":"b"`, want: "k"},
		{owner: `"project_id":"b"`, want: "kk"},
		{owner: `"project_id":"a"`, want: "k"},
		{owner: `"name":"of nobody"`, want: "k"},
		{owner: `"name":"of nobody"`, want: "k"},
	} {
		record := b.Run(t.Context(), runner.Limits{}, withKey(runtest.OneJob(body, run.owner)))
		require.JSONEq(t, `{"data":"`+run.want+`"}`, string(record.FinalState), record.ErrorMessage)
	}
}

// withKey gives the job of a run a credential.
func withKey(run mockserver.Run) mockserver.Run {
	run.Plan = json.RawMessage(strings.Replace(string(run.Plan), `{"id":"a",`, `{"id":"a","credential":{"key":"k"},`, 1))
	return run
}

// Guards against a plan whose branches come in the order of their names.
func TestBranchesComeInTheOrderOfThePlan(t *testing.T) {
	long(t)
	b := newBench(t, Config{})
	job := func(id string) string {
		return `{"id":"` + id + `","adaptor":"@openfn/language-common@3.3.4","body":"fn(s => s)"}`
	}
	edge := func(to string) string { return `{"source_job_id":"s","target_job_id":"` + to + `"}` }
	plan := `{"id":"` + runtest.NewID() + `","jobs":[` + job("s") + "," + job("z") + "," + job("a") + "," + job("m") +
		`],"edges":[` + edge("z") + "," + edge("a") + "," + edge("m") + `]}`
	record := b.Run(t.Context(), runner.Limits{}, mockserver.Run{Plan: json.RawMessage(plan)})
	var order []string
	for _, e := range record.Events {
		var p struct {
			JobID string `json:"job_id"`
		}
		if e.Event == "step:start" {
			require.NoError(t, json.Unmarshal(e.Payload, &p))
			order = append(order, p.JobID)
		}
	}
	require.Equal(t, []string{"s", "z", "a", "m"}, order)
}
