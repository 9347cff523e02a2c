package worker

import (
	"encoding/json"
	"fmt"
	"maps"
	"strings"

	"github.com/phxworker/phxworker/mockserver"
)

// foreignKey is a good public key, and of no server.
const foreignKey = "LS0tLS1CRUdJTiBQVUJMSUMgS0VZLS0tLS0KTUlJQklqQU5CZ2txaGtpRzl3MEJBUUVGQUFPQ0FROEFNSUlCQ2dLQ0FRRUF2NE9uZnEzRHZSSjhFeW92T2hlWgpzbEhsdmhsdVFxTHNHZ3QxcXBVQzlMRmJQTkwrMVdmUEp1NEZwMFVDUDFGS3gzdllScEQwQ1FYeEx4WTNaNkdJCjROU1NxWUVxT2JxK3M4ZmdQT2ZKb1JDL3JYQjdFd2hjTkh4NVlhdnhiV0ZqUkdUSDgrOW5ka0FrVzVZNE80T2gKS0VEODlBTmxOVWZaVUw5UkowakdHREMyeEJLTUVySFVkRTNhOEwxTC9URzlkY3lCdXhxOWlTVWRsSHZOdmJmbwpjanpQektTMHNLREhaNGpYQ2dqNCtHOTFFbjRXSjFhaGFoU0t3TU1nTkxQZWN2Z1pTM0VIQzJ6RW0wS2UwNzczCjhTMXV6UFpxZ1FuRG04bnAwVTk3d2NkTWpyQ21FWXE5c21ncEVCQWVRS0lHOGJMaHZ3eXpncnJYOHpGUFVsZFQKaHdJREFRQUIKLS0tLS1FTkQgUFVCTElDIEtFWS0tLS0tCg=="

// What jobs do. They need fn(), setTimeout and console.log.
const (
	// codeCount adds one to data.n, so that a state tells through how many jobs it went.
	codeCount = `fn(state => ({ ...state, data: { ...state.data, n: ((state.data && state.data.n) || 0) + 1 } }))`
	// codeThrow fails by an error of the job's own.
	codeThrow = `fn(() => { throw new Error('thrown on purpose'); })`
	// codeTypo fails by a mistake in the code.
	codeTypo = `fn(state => stat)`
	// codeShort, codeWait and codeLong take 150 ms, half a second, a minute.
	codeShort = `fn(state => new Promise(resolve => setTimeout(() => resolve(state), 150)))`
	codeWait  = `fn(state => new Promise(resolve => setTimeout(() => resolve(state), 500)))`
	codeLong  = `fn(state => new Promise(resolve => setTimeout(() => resolve(state), 60000)))`
	// codeLog writes fifty lines in order.
	codeLog = `fn(state => { for (let i = 0; i < 50; i++) { console.log('line ' + i); } return state; })`
	// codeSecret logs the secret of its credential.
	codeSecret = `fn(state => { console.log('the password is ' + state.configuration.password); return { ...state, data: { user: state.configuration.user } }; })` //nolint:gosec // the code of a job, with no secret in it
	// codeUser leaves behind the user of its credential.
	codeUser = `fn(state => ({ ...state, data: { user: state.configuration.user } }))`
	// codeLarge leaves two megabytes behind.
	codeLarge = `fn(state => ({ ...state, data: { text: 'x'.repeat(2000000) } }))`
	// codeQuotes leaves behind what is under a payload limit of 10 MB, and over a frame limit of 11 MB
	// once its quotes are escaped.
	codeQuotes = `fn(state => ({ ...state, data: { text: '"'.repeat(4500000) } }))`
	// codeNUL logs and leaves behind what PostgreSQL does not store.
	codeNUL = `fn(state => { console.log('before\u0000behind'); return { ...state, data: { text: 'before\u0000behind' } }; })`
	// codeSurrogate logs and leaves behind half a character, of which JSON can be made and UTF-8 cannot.
	codeSurrogate = `fn(state => { console.log('before\ud800behind'); return { ...state, data: { text: 'before\ud800behind' } }; })`
	// codeGreet uses a global of its plan.
	codeGreet   = `fn(state => ({ ...state, data: { greeting: greet('Ada') } }))`
	codeGlobals = `export const greet = name => 'hello ' + name;`
	// codeWebhook answers whoever waits at the webhook.
	codeWebhook = `fn(state => ({ ...state, webhookResponse: { status: 201, body: { sum: 42 } } }))`
	// codeNumber returns no object.
	codeNumber = `fn(() => 42)`
)

const adaptor = "@openfn/language-common@latest"

type fields = map[string]any

// job is a job of a plan; more are further fields of it.
func job(id, code string, more ...fields) fields {
	j := fields{"id": id, "adaptor": adaptor, "body": code}
	for _, m := range more {
		maps.Copy(j, m)
	}
	return j
}

// edge leads from one job to another; the condition may be empty.
func edge(from, to, condition string) fields {
	e := fields{"id": from + "-" + to, "source_job_id": from, "target_job_id": to, "enabled": true}
	if condition != "" {
		e["condition"] = condition
	}
	return e
}

// plan makes a plan of its parts: jobs, edges, and other fields.
func plan(jobs []fields, edges []fields, more ...fields) json.RawMessage {
	p := fields{"jobs": jobs, "edges": append([]fields{}, edges...), "triggers": []fields{}} // a list also where there are none, as Lightning has it
	for _, m := range more {
		maps.Copy(p, m)
	}
	text, _ := json.Marshal(p) // made of texts, numbers and lists
	return text
}

// one is a run of one job. Its input is an object, so that no worker has to make one up.
func one(code string, more ...fields) mockserver.Run {
	return mockserver.Run{Plan: plan([]fields{job("a", code)}, nil, more...), Dataclip: input}
}

var input = json.RawMessage(`{"data":{"n":1}}`)

// in puts a run into a queue.
func in(queue string, r mockserver.Run) mockserver.Run {
	r.Queue = queue
	return r
}

// chain is a run of jobs that follow each other: job-1, job-2, …
func chain(codes ...string) mockserver.Run {
	var jobs, edges []fields
	for i, code := range codes {
		id := fmt.Sprintf("job-%d", i+1)
		jobs = append(jobs, job(id, code))
		if i > 0 {
			edges = append(edges, edge(fmt.Sprintf("job-%d", i), id, "always"))
		}
	}
	return mockserver.Run{Plan: plan(jobs, edges), Dataclip: input}
}

// branches is a run of a job, two behind it, and one behind both.
func branches() mockserver.Run {
	return mockserver.Run{Dataclip: input, Plan: plan(
		[]fields{job("a", codeCount), job("b", codeCount), job("c", codeCount), job("d", codeCount)},
		[]fields{edge("a", "b", "always"), edge("a", "c", "on_job_success"), edge("b", "d", "always"), edge("c", "d", "always")},
	)}
}

// plural is a count with its noun.
func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return fmt.Sprintf("%d %ss", n, noun)
}

// list names things in a text, at most eight.
func list(items []string) string {
	const most = 8
	if len(items) > most {
		return strings.Join(items[:most], ", ") + fmt.Sprintf(" and %d more", len(items)-most)
	}
	return strings.Join(items, ", ")
}
