package page

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/phxworker/phxworker/examples"
	"github.com/phxworker/phxworker/internal/mocktest"
	"github.com/phxworker/phxworker/mockserver"
	"github.com/phxworker/phxworker/mockserver/fault"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func newServer(t *testing.T, cfg mockserver.Config) *mocktest.Server {
	t.Helper()
	cfg.Page, cfg.OpaqueTokens, cfg.WakeDebounce = New(examples.Files()), true, -1
	return mocktest.New(t, cfg)
}

// get returns the document of a path.
func get(t *testing.T, s http.Handler, path string) (int, string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
	r.Header.Set("Accept", "text/html,application/xhtml+xml")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	if strings.HasPrefix(w.Header().Get("Content-Type"), "text/html") {
		require.Equal(t, policy, w.Header().Get("Content-Security-Policy"), path)
		require.NotContains(t, w.Body.String(), "ZgotmplZ", "html/template found something to distrust")
	}
	return w.Code, w.Body.String()
}

// post sends a form, and returns where it led, or the document that it was answered with.
func post(t *testing.T, s http.Handler, path string, form url.Values) (status int, location, body string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, path, strings.NewReader(form.Encode()))
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Header().Get("Location"), w.Body.String()
}

const evil = `<script>alert("x")</script>'"><img src=x onerror=alert(1)>`

// execute sends the events of a step that has ended.
func execute(c *mocktest.Client, run, job, reason, errorMessage string) {
	const id = "b1f0c7a0-0000-4000-8000-000000000001"
	send := func(event string, fields map[string]any) {
		fields["step_id"], fields["timestamp"] = id, "1795168192891559"
		payload, _ := json.Marshal(fields)
		c.OK("run:"+run, event, string(payload))
	}
	send("step:start", map[string]any{"job_id": job})
	send("run:log", map[string]any{"message": []any{"said " + evil, 42}, "source": "JOB", "level": "info"})
	send("run:log", map[string]any{"message": []any{"no\n    at line 2, column 7"}, "source": "R/T", "level": "error"})
	send("step:complete", map[string]any{
		"reason": reason, "error_type": "JobError", "error_message": errorMessage,
		"output_dataclip": `{"out":"` + "<b>" + `"}`, "output_dataclip_id": "c1f0c7a0-0000-4000-8000-000000000001",
	})
}

func TestTheRunsPageIsForBrowsersAlone(t *testing.T) {
	m := newServer(t, mockserver.Config{})
	m.Queue(mockserver.Run{Plan: mocktest.Plan("r1"), Queue: "manual"})
	_, body := mocktest.Call(t, m, "GET", "/", "")
	require.Contains(t, body, `{"routes":[`, "a program is told the routes, as ever")
	status, body := get(t, m, "/")
	require.Equal(t, 200, status)
	for _, want := range []string{`<a href="/page/run?id=r1">r1</a>`, "· available", "<td>manual</td>", `data-follow="/events"`} {
		require.Contains(t, body, want)
	}
	_, body = get(t, m, "/?state=failed")
	require.Contains(t, body, "No run is like that.")
	status, body = get(t, m, "/?state=nope")
	require.Equal(t, 400, status)
	require.Contains(t, body, "there is no state &#34;nope&#34;")
	for i := range 60 {
		m.Queue(mockserver.Run{Plan: mocktest.Plan(fmt.Sprint("more-", i)), Queue: "manual"})
	}
	_, body = get(t, m, "/?queue=manual")
	require.NotContains(t, body, ">r1<")
	older := regexp.MustCompile(`<a href="(\?[^"]+)" rel="next">`).FindStringSubmatch(body)[1]
	_, body = get(t, m, "/"+strings.ReplaceAll(older, "&amp;", "&"))
	require.Contains(t, body, ">r1<")
}

// Whatever a plan, a worker or a job names is text, wherever it is shown.
func TestAllTextIsEscaped(t *testing.T) {
	m := newServer(t, mockserver.Config{})
	plan, _ := json.Marshal(map[string]any{
		"id": evil, "name": evil,
		"jobs": []any{map[string]any{"id": evil, "name": evil, "adaptor": evil, "body": "fn(s => s)\n" + evil}},
	})
	m.Queue(mockserver.Run{Plan: plan, Queue: evil, Dataclip: json.RawMessage(`{"in":"<i>"}`)})
	claim, _ := json.Marshal(map[string]any{"demand": 1, "worker_name": evil, "queues": []string{evil}})
	c := m.Worker()
	run := c.Claim(string(claim))[0]
	join, _ := json.Marshal(map[string]string{"token": run.Token})
	require.Equal(t, "ok", c.Join("run:"+evil, string(join)).Status)
	c.OK("run:"+evil, "run:start", `{"versions":{"worker":"<u>"}}`)
	execute(c, evil, evil, "fail", evil)
	payload, _ := json.Marshal(map[string]any{"reason": "fail", "error_type": evil, "error_message": evil})
	c.OK("run:"+evil, "run:complete", string(payload))
	_, err := m.AddFault(fault.Rule{Event: "run:log", Run: evil, Action: fault.Withhold})
	require.NoError(t, err)
	query := url.QueryEscape(evil)
	for _, path := range []string{
		"/", "/?q=" + url.QueryEscape("<img"), "/?queue=" + query, "/page/run?id=" + query, "/page/run?id=" + query + "&find=" + query,
		"/page/workers", "/page/faults", "/page/run?id=nope" + query, "/page/faults?run=" + query, "/page/queue?example=" + query, "/page/" + url.PathEscape(evil),
	} {
		_, body := get(t, m, path)
		for _, bad := range []string{"<script>alert", "<img", "<i>", "<b>\"", "<u>"} {
			require.NotContains(t, body, bad, path)
		}
		require.Equal(t, 1, strings.Count(body, "<script"), "the page's own")
	}
	_, body := get(t, m, "/page/run?id="+query)
	for _, want := range []string{"said &lt;script&gt;", `<span class="wrong">   2 ▶ &lt;script&gt;`, "&lt;u&gt;", "&#34;in&#34;: &#34;&lt;i&gt;&#34;"} {
		require.Contains(t, body, want)
	}
	_, _, body = post(t, m, "/page/queue", url.Values{"plan": {evil}, "queue": {evil}})
	require.NotContains(t, body, "<script>alert")
	_, _, body = post(t, m, "/page/faults", url.Values{"event": {evil}, "action": {"drop"}, "response": {evil}})
	require.NotContains(t, body, "<script>alert")
}

func TestTheRunPageTellsWhatHappened(t *testing.T) {
	m := newServer(t, mockserver.Config{TranscriptLimit: 1000})
	m.Queue(mockserver.Run{
		Plan: json.RawMessage(`{"id":"r1","name":"Stock","dataclip_id":"d","jobs":[{"id":"a","name":"Take from stock","body":"one\ntwo"}]}`), Queue: "manual",
	})
	c := m.Worker()
	token := c.Claim(`{"demand":1,"worker_name":"w","queues":["manual","*"]}`)[0].Token
	c.Join("run:r1", `{"token":"`+token+`"}`)
	_, body := get(t, m, "/page/run?id=r1")
	require.Contains(t, body, "▸ claimed")
	require.Contains(t, body, "claimed by w")
	require.Contains(t, body, "group <b>manual&gt;*</b> of <b>w</b>")
	execute(c, "r1", "a", "fail", "JobError: too few")
	_, err := m.AddFault(fault.Rule{Event: "run:log", Action: fault.Withhold, When: fault.After})
	require.NoError(t, err)
	c.Send("run:r1", "run:log", `{"message":["x"],"timestamp":"1795168192891559"}`)
	require.Equal(t, "error", c.Exchange("run:r1", "step:start", `{"job_id":"a"}`).Status)
	c.OK("run:r1", "run:complete", `{"reason":"fail","error_type":"JobError","error_message":"too few"}`)
	_, body = get(t, m, "/page/run?id=r1")
	for _, want := range []string{
		"✗ failed", "JobError: too few", "step Take from stock", "fault 1 struck run:log: withhold, after", "ended: fail",
		`<span class="wrong">   2 ▶ two`, "&#34;out&#34;: &#34;", "Events that did not count", "run:complete", "phx_join",
	} {
		require.Contains(t, body, want)
	}
	require.NotContains(t, body, "which are forgotten")
	require.NotContains(t, body, `action="/page/cancel"`, "it is over")
	_, body = get(t, m, "/page/run?id=r1&find=too+FEW")
	require.Equal(t, 2, strings.Count(body, `<li class="in">`), "the step's end and the run's")
	status, _ := get(t, m, "/page/run?id=nope")
	require.Equal(t, 404, status)
}

func TestARunIsQueuedFromTheForm(t *testing.T) {
	const plan = `{"jobs":[{"id":"a","adaptor":"@openfn/language-common","body":"fn(s => s)"}]}`
	form := func(pairs ...string) url.Values {
		values := url.Values{"plan": {plan}}
		for i := 0; i < len(pairs); i += 2 {
			values.Set(pairs[i], pairs[i+1])
		}
		return values
	}
	m := newServer(t, mockserver.Config{})
	status, location, _ := post(t, m, "/page/queue", form("queue", "manual", "priority", "immediate", "input", `{"a":1}`))
	require.Equal(t, 303, status)
	id, err := url.Parse(location)
	require.NoError(t, err)
	record, found := m.Inspect(id.Query().Get("id"))
	require.True(t, found)
	require.Equal(t, `manual immediate {"a":1}`, fmt.Sprint(record.Queue, " ", record.Priority, " ", string(record.Input)))

	queued := m.Stats().Enqueued
	for name, tt := range map[string]struct {
		form url.Values
		want string
	}{
		"no JSON":      {form("plan", "{\n  \"jobs\": [,]\n}"), `id="plan-problem" role="alert">is not JSON: line 2, column 12`},
		"no plan":      {form("plan", `{"jobs":7}`), `id="plan-problem" role="alert">jobs must be a list of objects`},
		"job twice":    {form("plan", `{"jobs":[{"id":"a"},{"id":"a"}]}`), "jobs[1].id has already been taken"},
		"id taken":     {form("plan", `{"id":"`+record.ID+`","jobs":[]}`), "exists already"},
		"no UTF-8":     {form("plan", "{\"jobs\":[],\"name\":\"\xff\"}"), `id="plan-problem" role="alert">is not UTF-8: save the file as UTF-8`},
		"YAML":         {form("plan", "steps:\n  - id: a\n"), `id="plan-problem" role="alert">is not JSON: line 1, column 1: invalid character 's' looking for beginning of value; it looks like YAML, which phxworker run executes`},
		"credential":   {form("plan", `{"jobs":[{"id":"a","body":"","credential_id":"gone"}]}`), "names the credential &#34;gone&#34;, which neither the plan nor the server has"},
		"input":        {form("input", "{"), `id="input-problem" role="alert">is not JSON: line 1`},
		"priority":     {form("priority", "urgent"), "must be normal or immediate"},
		"doubtful":     {form("plan", `{"jobs":[{"id":"a","bdy":"fn(s => s)"}]}`), "This can hardly mean what it says"},
		"an old doubt": {form("plan", `{"jobs":[{"id":"a","bdy":"fn(s => s)"}]}`, "doubted", plan), "This can hardly mean what it says"},
	} {
		t.Run(name, func(t *testing.T) {
			status, _, body := post(t, m, "/page/queue", tt.form)
			require.Equal(t, 422, status)
			require.Contains(t, strings.ReplaceAll(body, "&#39;", "'"), tt.want)
			require.Equal(t, queued, m.Stats().Enqueued, "nothing was queued")
		})
	}
	const doubtful = `{"jobs":[{"id":"a","bdy":"fn(s => s)"}]}`
	status, _, _ = post(t, m, "/page/queue", form("plan", doubtful, "doubted", doubtful))
	require.Equal(t, 303, status)
	_, body := get(t, m, "/page/queue?example=hello")
	require.Contains(t, body, "hello, world")
	require.Contains(t, body, "The smallest workflow there is")
}

// What is downloaded is good for what it is offered for.
func TestARunIsDownloadedAndQueuedAgain(t *testing.T) {
	m := newServer(t, mockserver.Config{})
	c, _ := m.Claimed(mockserver.Run{
		Plan:     json.RawMessage(`{"id":"r1","jobs":[{"id":"a","body":"fn(s => s)","credential_id":"c"}],"meta":{"project_id":"p"}}`),
		Dataclip: json.RawMessage(`{"a":1}`), Credentials: map[string]json.RawMessage{"c": json.RawMessage(`{"password":"secret"}`)}, Queue: "manual",
	})
	status, _ := get(t, m, "/page/fixture?id=r1")
	require.Equal(t, 409, status, "it has not ended")
	c.OK("run:r1", "run:complete", `{"reason":"fail","error_type":"JobError","error_message":"no"}`)

	_, plan := get(t, m, "/page/plan?id=r1")
	_, fixture := get(t, m, "/page/fixture?id=r1")
	require.NotContains(t, plan+fixture, "secret")
	status, body := mocktest.Call(t, m, "POST", "/run", plan)
	require.Equal(t, 201, status, body)
	require.Contains(t, body, `the job \"a\" names the credential \"c\", which neither the plan nor the server has`)
	var made struct{ ID string }
	require.NoError(t, json.Unmarshal([]byte(body), &made))
	record, _ := m.Inspect(made.ID)
	require.JSONEq(t, `{"a":1}`, string(record.Input))
	example, err := examples.Parse("r1.json", []byte(fixture))
	require.NoError(t, err)
	require.Equal(t, "manual {fail JobError}", fmt.Sprint(example.Queue, " ", example.Expect))
	require.JSONEq(t, `{"a":1}`, string(example.Dataclip))

	status, location, _ := post(t, m, "/page/again", url.Values{"id": {"r1"}, "input": {`{"b":2}`}})
	require.Equal(t, 303, status)
	again, err := url.Parse(location)
	require.NoError(t, err)
	record, _ = m.Inspect(again.Query().Get("id"))
	require.JSONEq(t, `{"b":2}`, string(record.Input))
	status, _, body = post(t, m, "/page/again", url.Values{"id": {"r1"}, "input": {`{`}})
	require.Equal(t, 422, status)
	require.Contains(t, body, "It is not JSON: line 1")
	status, _, _ = post(t, m, "/page/cancel", url.Values{"id": {record.ID}})
	require.Equal(t, 303, status)
	record, _ = m.Inspect(record.ID)
	require.Equal(t, mockserver.State("cancelled"), record.State)
	status, _, body = post(t, m, "/page/cancel", url.Values{"id": {record.ID}})
	require.Equal(t, 409, status)
	require.Contains(t, body, "it is over already")
	require.NotContains(t, body, "/page/fixture", "no worker has reported how it ended")
	status, _ = get(t, m, "/page/fixture?id="+record.ID)
	require.Equal(t, 409, status)
}

func TestWorkersAreSteered(t *testing.T) {
	m := newServer(t, mockserver.Config{Mode: mockserver.Extended})
	c := m.Connect()
	require.Equal(t, "ok", c.Join("worker:queue", `{"capacity":3,"queues":{"manual>*":3},"extensions":{"drain":1}}`).Status)
	_, body := get(t, m, "/page/workers")
	for _, want := range []string{"○○○", "mighty-worker", "extensions <b>drain</b>"} {
		require.Contains(t, body, want)
	}
	do := func(what string) int {
		status, _, _ := post(t, m, "/page/workers", url.Values{"id": {"mighty-worker"}, "do": {what}})
		return status
	}
	claim := func() int { return len(c.Claim(`{"demand":1,"worker_name":"w","queues":["manual","*"]}`)) }
	m.Queue(mockserver.Run{Plan: mocktest.Plan("r1")})
	require.Equal(t, 303, do("pause"))
	_, body = get(t, m, "/page/workers")
	require.Contains(t, body, "paused")
	require.Zero(t, claim())
	require.Equal(t, 303, do("resume"))
	require.Equal(t, 1, claim())
	_, body = get(t, m, "/page/workers")
	require.Contains(t, body, "●○○")
	require.Equal(t, 303, do("drain"))
	require.True(t, m.Workers()[0].Drained)
	require.Equal(t, 303, do("kick"))
	_, _, err := c.Conn.ReadMessage() // the news of the drain
	for err == nil {
		_, _, err = c.Conn.ReadMessage()
	}
	require.Equal(t, 409, do("dance"))
	status, _, _ := post(t, m, "/page/workers", url.Values{"do": {"kick"}})
	require.Equal(t, 422, status, "no name is not all of them")
}

func TestFaultsAreSwitched(t *testing.T) {
	m := newServer(t, mockserver.Config{})
	for _, preset := range presets {
		status, _, _ := post(t, m, "/page/faults", url.Values{"rule": {preset.Rule}})
		require.Equal(t, 303, status, preset.Rule)
	}
	require.Len(t, m.FaultRules(), len(presets))
	status, _, _ := post(t, m, "/page/faults/remove", url.Values{"rule": {"1"}})
	require.Equal(t, 303, status)
	require.Len(t, m.FaultRules(), len(presets)-1)
	post(t, m, "/page/faults/remove", url.Values{"rule": {"all"}})
	require.Empty(t, m.FaultRules())
	status, _, _ = post(t, m, "/page/faults", url.Values{"event": {"claim"}, "action": {"delay"}, "delay": {"15s"}, "count": {"-1"}})
	require.Equal(t, 303, status)
	require.Equal(t, 15*time.Second, m.FaultRules()[0].Delay)
	for field, value := range map[string]string{"delay": "soon", "count": "often", "probability": "0x1", "code": "1", "event": "nope"} {
		status, _, body := post(t, m, "/page/faults", url.Values{"action": {"close"}, field: {value}})
		require.Equal(t, 422, status, field)
		require.Contains(t, body, "<b>", field)
	}
	require.Len(t, m.FaultRules(), 1)
}

// Guards against a switch for a run that nobody has, which never strikes.
func TestNoPresetNamesARun(t *testing.T) {
	for _, preset := range presets {
		rule, err := fault.Parse([]byte(preset.Rule))
		require.NoError(t, err, preset.Rule)
		require.Empty(t, rule.Run, preset.Want)
		require.Empty(t, rule.Worker, preset.Want)
	}
}

// The switches are those of the table that people read.
func TestPresetsAreInTheDocs(t *testing.T) {
	docs, err := os.ReadFile("../../docs/mockserver.md")
	require.NoError(t, err)
	for _, preset := range presets {
		require.Contains(t, string(docs), "`"+preset.Rule+"`", preset.Want)
	}
}

// Guards against a page elsewhere that uses a form of this one.
func TestNoOtherPageUsesTheForms(t *testing.T) {
	s := mockserver.NewTest(t, mockserver.Config{Page: New(nil)})
	transport := &http.Transport{DisableKeepAlives: true}
	ask := func(method, path, host, header, value string) int {
		r, err := http.NewRequestWithContext(t.Context(), method, s.HTTPURL()+path, strings.NewReader("plan=%7B%22jobs%22%3A%5B%5D%7D&do=kick&id=w&rule=all"))
		require.NoError(t, err)
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Accept", "text/html")
		if host != "" {
			r.Host = host
		}
		if header != "" {
			r.Header.Set(header, value)
		}
		response, err := transport.RoundTrip(r)
		require.NoError(t, err)
		require.NoError(t, response.Body.Close())
		return response.StatusCode
	}
	for _, path := range []string{"/page/queue", "/page/again", "/page/cancel", "/page/workers", "/page/faults", "/page/faults/remove"} {
		require.Equal(t, 403, ask("POST", path, "", "Origin", "https://a.example"), path)
		require.Equal(t, 403, ask("POST", path, "", "Sec-Fetch-Site", "cross-site"), path)
		require.Equal(t, 403, ask("POST", path, "rebound.example:80", "", ""), path)
	}
	for _, path := range []string{"/", "/page/run?id=x", "/events", "/runs"} {
		require.Equal(t, 403, ask("GET", path, "rebound.example:80", "", ""), path)
	}
	require.Zero(t, s.Stats().Enqueued)
	require.Equal(t, 303, ask("POST", "/page/queue", "", "Sec-Fetch-Site", "same-origin"))
	require.EqualValues(t, 1, s.Stats().Enqueued)
}

func BenchmarkPageOf10000Runs(b *testing.B) {
	s, err := mockserver.New(mockserver.Config{Page: New(nil), OpaqueTokens: true, MaxQueued: -1})
	require.NoError(b, err)
	defer s.Close()
	for i := range 10_000 {
		_, err := s.Enqueue(mockserver.Run{Plan: mocktest.Plan(fmt.Sprint("run-", i))})
		require.NoError(b, err)
	}
	for _, path := range []string{"/", "/?q=run-77", "/?q=nowhere", "/?limit=1000"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				r := httptest.NewRequest(http.MethodGet, path, nil)
				r.Header.Set("Accept", "text/html")
				w := httptest.NewRecorder()
				s.ServeHTTP(w, r)
				require.Equal(b, 200, w.Code)
			}
		})
	}
}

func ruleOf(t *testing.T, text string) fault.Rule {
	t.Helper()
	rule, err := fault.Parse([]byte(text))
	require.NoError(t, err)
	return rule
}
