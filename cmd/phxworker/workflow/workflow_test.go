package workflow

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// write puts files into a new folder, and returns it.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o700))
		require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
	}
	return dir
}

const workflowFile = `
id: visits
name: Visits
start: webhook
steps:
  - id: webhook
    type: webhook
    next:
      load: { condition: always }
  - id: load
    name: Load visits
    adaptor: http
    expression: ./load.js
    configuration: clinic
    next:
      good: on_job_success
      bad: { condition: "state.errors", label: it failed }
      never: false
  - id: good
    adaptor: "@openfn/language-common@3.3.4"
    expression: "fn(s => s)"
  - id: bad
    expression: fn(s => s)
    configuration: { user: a }
    state: { data: { n: 1 } }
  - id: never
    expression: ""
`

const workflowPlan = `{"id":"r","name":"Visits","triggers":[{"id":"webhook","type":"webhook"}],"starting_node_id":"webhook","jobs":[
	{"id":"load","name":"Load visits","adaptor":"@openfn/language-http","body":"get('x')\n","credential_id":"clinic"},
	{"id":"good","adaptor":"@openfn/language-common@3.3.4","body":"fn(s => s)"},
	{"id":"bad","adaptor":"@openfn/language-common@latest","body":"fn(s => s)","credential":{"user":"a"},"state":{"data":{"n":1}}},
	{"id":"never","adaptor":"@openfn/language-common@latest","body":""}],"edges":[
	{"id":"webhook-load","source_trigger_id":"webhook","target_job_id":"load","condition":"always"},
	{"id":"load-good","source_job_id":"load","target_job_id":"good","condition":"on_job_success"},
	{"id":"load-bad","source_job_id":"load","target_job_id":"bad","condition":"state.errors"},
	{"id":"load-never","source_job_id":"load","target_job_id":"never","enabled":false}]}`

func TestAWorkflowOfOpenFnsToolsBecomesAPlan(t *testing.T) {
	dir := write(t, map[string]string{"workflow.yaml": workflowFile, "load.js": "get('x')\n"})
	for _, path := range []string{dir, filepath.Join(dir, "workflow.yaml")} {
		w, err := Read(path, Options{ID: "r"})
		require.NoError(t, err)
		require.JSONEq(t, workflowPlan, string(w.Plan))
		require.Equal(t, map[string]string{"clinic": "load"}, w.Needs)
		require.Equal(t, "Load visits", w.Names["load"])
		require.Equal(t, []string{filepath.Join(dir, "workflow.yaml"), filepath.Join(dir, "load.js")}, w.Files)
	}
}

func TestAProjectHasItsWorkflowsInFolders(t *testing.T) {
	dir := write(t, map[string]string{
		"openfn.yaml":                      "project: { id: p }\nworkspace: { dirs: { workflows: flows } }\n",
		"flows/visits/visits.yaml":         workflowFile,
		"flows/visits/load.js":             "get('x')\n",
		"flows/stock/stock.yaml":           "id: stock\nsteps:\n  - { id: a, expression: fn(s => s) }\n",
		"flows/stock/unrelated/other.yaml": "a: 1\n",
	})
	w, err := Read(dir, Options{ID: "r", Workflow: "visits"})
	require.NoError(t, err)
	require.JSONEq(t, workflowPlan, string(w.Plan))

	_, err = Read(dir, Options{ID: "r"})
	require.EqualError(t, err, filepath.Join(dir, "openfn.yaml")+": there are several workflows: say --workflow with one of stock, visits")
	_, err = Read(dir, Options{ID: "r", Workflow: "vists"})
	require.EqualError(t, err, filepath.Join(dir, "openfn.yaml")+`: there is no workflow "vists": there are stock, visits`)
}

func TestAProjectOfOlderToolsBecomesAPlan(t *testing.T) {
	dir := write(t, map[string]string{"load.js": "get('x')", "project.yaml": `
name: clinic
credentials:
  admin@clinic-warehouse: { name: warehouse, owner: admin@clinic }
workflows:
  visits:
    name: Visits
    jobs:
      load: { name: Load visits, adaptor: "@openfn/language-http@7.2.10", body: { path: load.js }, credential: admin@clinic-warehouse }
      store: { name: Store, adaptor: "@openfn/language-common@latest", body: "fn(s => s)" }
    triggers:
      webhook: { type: webhook, enabled: true }
    edges:
      webhook->load: { source_trigger: webhook, target_job: load, condition_type: always, enabled: true }
      load->store: { source_job: load, target_job: store, condition_type: js_expression, condition_expression: "!state.errors", enabled: false }
`})
	w, err := Read(dir, Options{ID: "r"})
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"r","name":"Visits","triggers":[{"id":"webhook","type":"webhook"}],"jobs":[
		{"id":"load","name":"Load visits","adaptor":"@openfn/language-http@7.2.10","body":"get('x')","credential_id":"warehouse"},
		{"id":"store","name":"Store","adaptor":"@openfn/language-common@latest","body":"fn(s => s)"}],"edges":[
		{"id":"webhook-load","source_trigger_id":"webhook","target_job_id":"load","condition":"always"},
		{"id":"load-store","source_job_id":"load","target_job_id":"store","condition":"!state.errors","enabled":false}]}`, string(w.Plan))
}

func TestAJobIsAWorkflow(t *testing.T) {
	dir := write(t, map[string]string{"My job.js": "fn(s => s)"})
	w, err := Read(filepath.Join(dir, "My job.js"), Options{ID: "r", Adaptor: "http@7.2.10"})
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"r","name":"My job","jobs":[{"id":"my-job","name":"My job","adaptor":"@openfn/language-http@7.2.10","body":"fn(s => s)"}]}`, string(w.Plan))
}

func TestAPlanStaysAsItIs(t *testing.T) {
	dir := write(t, map[string]string{"plan.json": `{"about":"x","dataclip":{"n":1e3},"credentials":{"c":{"user":"a"}},"jobs":[
		{"id":"a","body":"fn(s => s)","credential_id":"c","new_field":12345678901234567890},{"id":"b","body":""},{"id":"c","body":""}],
		"edges":[{"source_job_id":"a","target_job_id":"b"},{"source_job_id":"b","target_job_id":"c"}],"later":true}`})
	w, err := Read(filepath.Join(dir, "plan.json"), Options{ID: "r", Start: "a", End: "b"})
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"r","starting_node_id":"a","jobs":[
		{"id":"a","body":"fn(s => s)","credential_id":"c","new_field":12345678901234567890},{"id":"b","body":""},{"id":"c","body":""}],
		"edges":[{"source_job_id":"a","target_job_id":"b"}],"later":true}`, string(w.Plan))
	require.Contains(t, string(w.Plan), `"new_field":12345678901234567890`)
	require.JSONEq(t, `{"n":1e3}`, string(w.Input))
	require.JSONEq(t, `{"user":"a"}`, string(w.Credentials["c"]))
}

func TestWhatIsNoWorkflowIsSaid(t *testing.T) {
	dir := write(t, map[string]string{
		"empty.yaml": "", "list.json": "[]", "other.json": `{"a":1}`, "torn.json": `{"jobs":[`, "notes.txt": "",
		"wrong.json":   `{"jobs":[{"id":7}]}`,
		"lost.yaml":    "steps:\n  - id: a\n    expression: ./gone.js\n",
		"edge.yaml":    "steps:\n  - id: a\n    next:\n      z: true\n",
		"plan.json":    `{"jobs":[{"id":"a"},{"id":"b"}]}`,
		"empty.js":     " \n",
		"comma.json":   "{\"jobs\":[\n  {\"id\":\"a\",\"body\":\"fn(s => s)\"},\n]}",
		"number.json":  `{"jobs":{"a":1}}`,
		"adaptor.yaml": "steps:\n  - id: a\n    adaptor: [http]\n",
		"scalar.yaml":  "steps:\n  - a\n",
		"unsaid.yaml": "jobs: { a: { body: x } }\ntriggers: { t: { type: webhook } }\nedges:\n  t->a: { source_trigger: t, target_job: a,\n" +
			"    condition_type: js_expression, condition_expresion: \"false\" }\n",
	})
	for name, want := range map[string]string{
		"gone.yaml":    "gone.yaml: there is no such file",
		"empty.yaml":   `empty.yaml: it is no workflow: there must be an object with "jobs", "steps" or "workflows"`,
		"list.json":    `list.json: it is no workflow: there must be an object with "jobs", "steps" or "workflows"`,
		"other.json":   `other.json: it is no workflow: it has none of "jobs", "steps" and "workflows"`,
		"torn.json":    "torn.json: it cannot be read: line 1: did not find expected node content",
		"notes.txt":    "notes.txt: it is neither a job (.js) nor a workflow (.json, .yaml): its name must end so",
		"wrong.json":   `wrong.json: "jobs.id" must not be of type number`,
		"lost.yaml":    `lost.yaml:3: the step "a" names the file ./gone.js: there is no such file`,
		"edge.yaml":    `edge.yaml:4: the step "a" leads to "z", and there is no such step`,
		"plan.json":    `plan.json: there is no step "c": the steps are a, b`,
		"empty.js":     "empty.js: there is no code in it",
		"comma.json":   "comma.json: it is not JSON: line 3, column 1: invalid character ']' looking for beginning of value",
		"number.json":  `number.json:1: the job "a" must be an object, such as { name: Load visits }`,
		"adaptor.yaml": `adaptor.yaml:3: the step "a" has adaptor that is no text`,
		"scalar.yaml":  `scalar.yaml:2: the step "step-1" must be an object, such as { name: Load visits }`,
		"unsaid.yaml":  `unsaid.yaml:4: the edge "t->a" has the condition_type js_expression and no condition_expression`,
	} {
		_, err := Read(filepath.Join(dir, name), Options{Start: "c"})
		require.EqualError(t, err, filepath.Join(dir, want), name)
	}
	_, err := Read(filepath.Join(dir, "plan.json"), Options{Workflow: "w"})
	require.EqualError(t, err, filepath.Join(dir, `plan.json: there is no workflow "w": it is no project, leave --workflow out`))
	_, err = Read(t.TempDir(), Options{})
	require.ErrorContains(t, err, "there is no workflow in this folder: none of openfn.yaml")
}

// Guards against a word that was mistyped, without which the workflow is another one.
func TestFieldsThatNothingReadsAreWarnedOf(t *testing.T) {
	dir := write(t, map[string]string{
		"flow.yaml": "stps: 1\nsteps:\n  - id: a\n    credential: clinic\n    nxt: b\n    next:\n      b: { condtion: true, disabled: false }\n" +
			"  - id: b\n    expresion: fn(s => s)\n    colour: red\n    openfn: { uuid: 1 }\n",
		"older.yaml": "jobs: { a: { expression: x } }\nedges: { b: { source_job: a, target_job: a, condtion_type: always } }\n",
		"good.yaml":  workflowFile,
		"load.js":    "get('x')",
	})
	const unread = ", which nothing reads"
	for file, want := range map[string][]string{
		"flow.yaml": {
			`:1: the workflow has a field "stps"` + unread + `: did you mean "steps"?`,
			`:4: the step "a" has a field "credential"` + unread + `: did you mean "configuration"?`,
			`:5: the step "a" has a field "nxt"` + unread + `: did you mean "next"?`,
			`:9: the step "b" has a field "expresion"` + unread + `: did you mean "expression"?`,
			`:10: the step "b" has a field "colour"` + unread,
			`:7: the edge to "b" has a field "condtion"` + unread + `: did you mean "condition"?`,
		},
		"older.yaml": {
			`:1: the job "a" has a field "expression"` + unread + `: did you mean "body"?`,
			`:2: the edge "b" has a field "condtion_type"` + unread + `: did you mean "condition_type"?`,
		},
		"good.yaml": nil,
	} {
		path := filepath.Join(dir, file)
		w, err := Read(path, Options{ID: "r"})
		require.NoError(t, err)
		var told []string
		for _, warning := range w.Warnings {
			told = append(told, strings.TrimPrefix(warning, path))
		}
		require.Equal(t, want, told, file)
	}
}

// Whoever waits for a workflow to be mended has to know what may be wrong.
func TestWhatWasReadOfNoWorkflow(t *testing.T) {
	dir := write(t, map[string]string{"workflow.yaml": "steps:\n  - id: a\n    expression: ./gone.js\n"})
	w, err := Read(dir, Options{})
	require.Error(t, err)
	require.Equal(t, []string{filepath.Join(dir, "workflow.yaml"), filepath.Join(dir, "gone.js")}, w.Files)
}

// As a template leaves them.
func TestFieldsThatAreThereAndEmpty(t *testing.T) {
	dir := write(t, map[string]string{"workflow.yaml": "name:\nglobals:\nsteps:\n  - id: a\n    name:\n    adaptor:\n    configuration:\n    expression:\n    state:\n    next:\n  - id: b\n    next: { a: }\n"})
	w, err := Read(dir, Options{ID: "r"})
	require.NoError(t, err)
	require.JSONEq(t, `{"id":"r","jobs":[
		{"id":"a","adaptor":"@openfn/language-common@latest","body":""},{"id":"b","adaptor":"@openfn/language-common@latest","body":""}],
		"edges":[{"id":"b-a","source_job_id":"b","target_job_id":"a"}]}`, string(w.Plan))
}

func TestAJobWhoseNameHasNoLetters(t *testing.T) {
	dir := write(t, map[string]string{"заказы.js": "fn(s => s)"})
	w, err := Read(filepath.Join(dir, "заказы.js"), Options{ID: "r"})
	require.NoError(t, err)
	require.Equal(t, map[string]string{"job": "заказы"}, w.Names)
}
