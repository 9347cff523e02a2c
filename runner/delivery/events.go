package delivery

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"github.com/phxworker/phxworker/channel/frame"
)

// event is one push of a run's topic. Its methods are called by the outbox's sender alone, in the order of the
// events; so payload sees what the server has acknowledged up to then.
type event interface {
	name() string
	payload() any
	// lessen takes away what the server may not want of the event, for the reason given, and reports whether
	// there was anything. What the run's log should be told of that is told, unless it is nil.
	lessen(why error) (less bool, told event)
	// answered tells that the server has acknowledged the event, or refused it.
	answered(refusal error)
	state() *sending
}

// sending is what every event has: its name, and what is known of its copies. Its methods are what most events do.
type sending struct {
	event      string
	size       int       // that counts in the outbox
	unknown    int       // copies that may have arrived
	since      time.Time // the first of them was pushed
	unanswered int       // those of them that were waited for
	unread     int       // those of them whose answers were too large to be read
	crashed    int       // those of them that the server's channel crashed over
	duplicate  bool      // it was acknowledged by the refusal of a second copy
}

func (s *sending) name() string             { return s.event }
func (s *sending) state() *sending          { return s }
func (*sending) lessen(error) (bool, event) { return false, nil }
func (*sending) answered(error)             {}

// timestamp is microseconds since 1970, as a decimal string.
type timestamp time.Time

func (t timestamp) MarshalJSON() ([]byte, error) {
	return strconv.AppendQuote(nil, strconv.FormatInt(time.Time(t).UnixMicro(), 10)), nil
}

// The events that are asked after by name.
const (
	lineEvent  = "run:log"
	batchEvent = "run:batch_logs"
	endEvent   = "run:complete"
)

// Reason is how a run or a step ended, in Lightning's words.
type Reason string

// success is the only reason that comes without an error.
const success Reason = "success"

// ending is a reason with its error, on the wire.
type ending struct {
	Reason       Reason  `json:"reason"`
	ErrorType    *string `json:"error_type"`
	ErrorMessage *string `json:"error_message"`
}

// How much of an error is sent, in bytes. A job may throw anything, and an event over the limit of a frame is not
// taken at all.
const (
	maxMessage = 64 << 10
	maxName    = 256 // of its type, and of other names
)

func newEnding(reason Reason, errorType, message string) ending {
	e := ending{Reason: reason}
	if reason == success {
		return e
	}
	if errorType != "" {
		errorType = Cut(storableText(errorType), maxName, "")
		e.ErrorType = &errorType
	}
	message = Cut(storableText(message), maxMessage, "… (cut)")
	e.ErrorMessage = &message
	return e
}

// fixed is an event whose payload is known from the beginning.
type fixed struct {
	sending

	body any
}

func (e *fixed) payload() any { return e.body }

// Start reports that the run begins; versions, as JSON, are what executes it.
func (o *Outbox) Start(versions any) {
	o.put(&fixed{sending{event: "run:start"}, struct {
		Versions  any       `json:"versions"`
		Timestamp timestamp `json:"timestamp"`
	}{versions, timestamp(time.Now())}}, 0)
}

// Step is one execution of a job, as the server is told of it. Whoever made it hands it on to the other methods of
// the Outbox.
type Step struct {
	id, job string
	from    *Step
	input   string

	// What is below is the sender's own.

	// known tells that the server has taken the step's step:start.
	known bool
	// dataclip is the id of the step's output once the server has acknowledged it, and empty before: an id that
	// the server does not know would make it refuse every event that mentions it.
	dataclip string
}

// NewStep returns a step whose input is the output of the step from, or else the dataclip input.
func NewStep(job string, from *Step, input string) *Step {
	return &Step{id: uuid.NewString(), job: job, from: from, input: input}
}

// inputDataclip returns the id of the dataclip that the step was given, empty when it had none or the server does not
// know it.
func (s *Step) inputDataclip() string {
	if s.from != nil {
		return s.from.dataclip
	}
	return s.input
}

type stepStart struct {
	sending

	step *Step
	at   time.Time
	bare bool // without its input, which the server does not take
}

// StartStep reports that the step begins. The lines of a step that was not reported go without it.
func (o *Outbox) StartStep(step *Step) {
	o.put(&stepStart{sending: sending{event: "step:start"}, step: step, at: time.Now()}, 0)
}

func (e *stepStart) lessen(error) (bool, event) {
	if e.bare || e.step.inputDataclip() == "" {
		return false, nil
	}
	e.bare = true
	return true, nil
}

func (e *stepStart) answered(refusal error) {
	e.step.known = refusal == nil || isDuplicate(e.name(), refusalOf(refusal))
}

func (e *stepStart) payload() any {
	p := struct {
		StepID          string    `json:"step_id"`
		JobID           string    `json:"job_id"`
		InputDataclipID string    `json:"input_dataclip_id,omitempty"`
		Timestamp       timestamp `json:"timestamp"`
	}{e.step.id, e.step.job, e.step.inputDataclip(), timestamp(e.at)}
	if e.bare {
		p.InputDataclipID = ""
	}
	return p
}

// StepResult is how a step ended.
type StepResult struct {
	// Reason defaults to Success; one that there is not is reported as Exception. The error fields are only sent
	// with others.
	Reason       Reason
	ErrorType    string
	ErrorMessage string
	// State is the JSON that the step left behind, its output dataclip. Nil stands for nothing at all, which the
	// server gets as {}.
	State json.RawMessage
	// StateTooLarge says that the engine has left State out, for it is over the limit of a payload.
	StateTooLarge bool
	// Leaf tells that no step comes after this one. The leaf steps decide the reason of the run.
	Leaf bool
	// WebhookResponse, an object {status, body}, is what the caller of a waiting webhook is to be answered.
	WebhookResponse json.RawMessage
	// Duration and Memory are left out of the report when zero.
	Duration time.Duration
	Memory   Memory
	// ThreadID names whatever executed the step.
	ThreadID string
}

// Memory is what a step used, in bytes.
type Memory struct {
	Job    uint64 `json:"job"`
	System uint64 `json:"system"`
}

// stepComplete carries a step's output under a dataclip id that the worker makes. An output over the limit has
// neither, but says so.
type stepComplete struct {
	sending

	box      *Outbox
	step     *Step
	body     stepCompleteBody // without its response to the webhook and its output
	webhook  json.RawMessage  // the response that the step itself asked for
	output   string
	native   bool // the output goes as an object, not as a text
	reformed bool // it goes in another form than at first
}

type stepCompleteBody struct {
	StepID              string          `json:"step_id"`
	JobID               string          `json:"job_id"`
	Mem                 Memory          `json:"mem,omitzero"`
	Duration            *int64          `json:"duration,omitempty"`
	ThreadID            string          `json:"thread_id,omitempty"`
	Timestamp           timestamp       `json:"timestamp,omitzero"`
	WebhookResponse     json.RawMessage `json:"webhook_response,omitempty"`
	OutputDataclipID    string          `json:"output_dataclip_id,omitempty"`
	OutputDataclip      any             `json:"output_dataclip,omitempty"`
	DataclipSizeMB      string          `json:"dataclip_size_mb,omitempty"`
	OutputDataclipError string          `json:"output_dataclip_error,omitempty"`
	ending
}

const tooLarge = "DATACLIP_TOO_LARGE"

// CompleteStep reports how the step ended, and when; the time is zero for one that was ended from outside. The run's
// log says so if the output is over the limit.
func (o *Outbox) CompleteStep(step *Step, result StepResult, at time.Time) {
	state := storable(frame.Portable(result.State)) // it is sent as a string, which the server decodes as well
	if len(state) == 0 {
		state = json.RawMessage("{}")
	}
	e := &stepComplete{sending: sending{event: "step:complete"}, box: o, step: step, webhook: storable(result.WebhookResponse), body: stepCompleteBody{
		StepID: step.id, JobID: step.job, Mem: result.Memory, ThreadID: Cut(storableText(result.ThreadID), maxName, ""), Timestamp: timestamp(at),
		ending: newEnding(result.Reason, result.ErrorType, result.ErrorMessage),
	}}
	if !at.IsZero() {
		ms := result.Duration.Milliseconds()
		e.body.Duration = &ms
	}
	if !result.StateTooLarge {
		e.body.DataclipSizeMB = sizeMB(len(state))
	}
	if limits := o.limits.Load(); result.StateTooLarge || Exceeds(len(state), limits.PayloadMB) {
		e.body.OutputDataclipError = tooLarge
		o.Log(Warning("The output of the step is over the payload limit of "+FormatMB(limits.PayloadMB)+": it was not sent"), step)
	} else {
		e.body.OutputDataclipID = uuid.NewString()
		if !limits.WithholdDataclips {
			e.output = string(state)
		}
	}
	o.put(e, len(e.output)+len(e.webhook)+min(len(result.ErrorMessage), maxMessage))
}

// lessen has an output that is refused go in the other form, once. Then it leaves the output out, or the webhook's
// response, which may be anything; the latter first if it is no JSON, or what a refusal names. An output may be over the
// limit of a frame though it is under that of a payload: escaping makes it longer.
func (e *stepComplete) lessen(why error) (bool, event) {
	what := "output of the step"
	switch webhook := e.webhookResponse(); {
	case e.output != "" && !e.reformed && isAbout(why, "output_dataclip"):
		e.native, e.reformed = !e.native, true
		return true, nil
	case webhook != nil && (e.body.OutputDataclipError != "" || isAbout(why, "webhook_response") || !json.Valid(webhook)):
		what = "response to the webhook"
		e.webhook, e.box.webhook.response = nil, nil
	case e.body.OutputDataclipError == "":
		e.body.OutputDataclipError, e.body.OutputDataclipID, e.output = tooLarge, "", ""
	default:
		return false, nil
	}
	return true, e.box.newLine(Warning("The "+what+" was left out: "+whyLess(why)), e.step)
}

// webhookResponse returns what the event is to carry: what its own step asked for, or what an earlier one did under a
// join that is gone.
func (e *stepComplete) webhookResponse() json.RawMessage {
	own, w := e.webhook, &e.box.webhook
	if own != nil {
		w.response, w.epoch = own, 0
	}
	if w.epoch == e.box.epoch {
		return own
	}
	return w.response
}

func (e *stepComplete) payload() any {
	if !e.reformed {
		e.native = e.box.delivery.native.Load()
	}
	p := e.body
	p.WebhookResponse = e.webhookResponse()
	switch {
	case e.output == "":
	case e.native: // not a text, which would be taken for JSON: Lightning's channel crashes where it is none
		p.OutputDataclip = asObject(json.RawMessage(e.output))
	default:
		p.OutputDataclip = e.output
	}
	return p
}

// sizeMB writes how large a dataclip is, in MB of 2^20 bytes with three digits that count, as OpenFn's worker does.
func sizeMB(bytes int) string {
	const digits = 3
	text := strconv.FormatFloat(float64(bytes)/(1<<20), 'e', digits-1, 64)
	exponent, _ := strconv.Atoi(text[len("1.23e"):])
	rounded, _ := strconv.ParseFloat(text, 64)
	return strconv.FormatFloat(rounded, 'f', max(digits-1-exponent, 0), 64)
}

// asObject wraps what is no object in one, the way later versions of Lightning do it themselves. It returns nil for
// nothing.
func asObject(state json.RawMessage) json.RawMessage {
	switch state = bytes.TrimSpace(state); {
	case len(state) == 0:
		return nil
	case state[0] != '{':
		return append(append([]byte(`{"value":`), state...), '}')
	}
	return state
}

func (e *stepComplete) answered(refusal error) {
	if refusal != nil {
		return
	}
	e.step.dataclip = e.body.OutputDataclipID
	if e.reformed && e.output != "" {
		e.box.delivery.learnForm(e.native)
	}
	if w := &e.box.webhook; w.response != nil && !e.duplicate { // else it was told under a join that is gone
		w.epoch = e.box.epoch
	}
}

// webhook is the response that a job wants the caller of its webhook to get. The server keeps it with the join, so it
// is told again after a rejoin.
type webhook struct {
	response json.RawMessage
	epoch    int // of the join that has it; 0 for none
}

// End is how a run ended.
type End struct {
	Reason Reason
	// ErrorType and ErrorMessage are only sent with another reason than success.
	ErrorType, ErrorMessage string
	// State is the final state; nil leaves it out.
	State json.RawMessage
	// Output is the step whose output is the final one, if it is one.
	Output *Step
	// At is zero for a run that ended before its plan did.
	At time.Time
}

// runComplete is the last event of a run. A run whose run:complete is not taken is lost, so it can be offered with
// less and less in it: without the final state, then without the final dataclip, with nothing but the reason. If the
// dataclip is what a refusal names, it goes first: the state may be the last copy of the output.
type runComplete struct {
	sending

	box *Outbox
	End
	whole *End // before the server refused something in it; nil if it has not
}

// Complete reports how the run ended, and closes the outbox. A final state that is no object is wrapped in one, the
// way later versions of Lightning do it themselves. Earlier ones lose a run that ends with 42.
func (o *Outbox) Complete(end End) {
	end.State = asObject(storable(end.State))
	o.put(&runComplete{sending: sending{event: endEvent}, box: o, End: end}, len(end.State))
	o.Close()
}

func (e *runComplete) payload() any {
	return struct {
		Timestamp       timestamp       `json:"timestamp,omitzero"`
		FinalState      json.RawMessage `json:"final_state,omitempty"`
		FinalDataclipID string          `json:"final_dataclip_id,omitempty"`
		ending
	}{timestamp(e.At), e.State, e.dataclip(), newEnding(e.Reason, e.ErrorType, e.ErrorMessage)}
}

func (e *runComplete) dataclip() string {
	if e.Output == nil {
		return ""
	}
	return e.Output.dataclip
}

func (e *runComplete) lessen(why error) (bool, event) {
	if whole := e.End; e.whole == nil && refusalOf(why) != nil {
		e.whole = &whole
	}
	switch {
	case e.dataclip() != "" && (e.State == nil || isAbout(why, "final_dataclip_id")):
		e.Output = nil
		return true, nil
	case e.State != nil:
		e.State = nil
		return true, e.box.newLine(Warning("The final state was left out: "+whyLess(why)), nil)
	}
	return false, nil
}

// ErrEndRefused says that a run has ended, and that the server does not take that from this worker.
var ErrEndRefused = errors.New("the server takes run:complete in no form")

func (e *runComplete) answered(refusal error) {
	switch {
	case refusal == nil:
	case isDuplicate(e.name(), refusalOf(refusal)):
		e.box.refused = fmt.Errorf("the server has another end of the run already: %w", refusal)
	default:
		e.box.refused, e.box.refusedEnd = fmt.Errorf("%w: %w", ErrEndRefused, refusal), e
		if e.whole != nil { // the server may be mended, and this the last copy
			e.End = *e.whole
		}
	}
}
