package chaos

import (
	"encoding/json"

	"github.com/phxworker/phxworker/runner"
)

// checkDataclips holds a run of which nothing is missing to its dataclips: each step
// was given the output of the one before, and the last one's is that of the
// run.
func (j *judge) checkDataclips() {
	output := "" // of the step before
	for _, e := range j.record.Events {
		var p struct {
			Job    string `json:"job_id"`
			Input  string `json:"input_dataclip_id"`
			Output string `json:"output_dataclip_id"`
			Reason runner.Reason
			Final  string `json:"final_dataclip_id"`
		}
		if e.Status != "ok" || json.Unmarshal(e.Payload, &p) != nil {
			continue
		}
		switch e.Event {
		case "step:start":
			if p.Job != job(0) && p.Input != output {
				j.fail("%s was started with the input %q instead of %q", p.Job, p.Input, output)
			} else if p.Job == job(0) && (p.Input != "") != j.script.input {
				j.fail("%s was started with the input %q", p.Job, p.Input)
			}
		case "step:complete":
			output = p.Output
		case "run:complete":
			if (p.Reason == runner.Success || p.Reason == runner.Fail) && p.Final != output {
				j.fail("its final dataclip is %q instead of %q", p.Final, output)
			}
		}
	}
}
