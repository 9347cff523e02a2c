package main

import (
	"bufio"
	"bytes"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// contract is what the fields of a type of the contract are called in the table: of a plan, or of a message by its
// event. Of a type that is none of these, nothing is said, unless its name says that it belongs here.
var contract = map[string]string{ //nolint:gosec // names, and no credentials
	"LightningPlan": "plan", "LightningPlanMeta": "meta", "LightningPlanOptions": "options",
	"LightningNode": "job", "LightningJob": "job", "LightningTrigger": "trigger", "LightningEdge": "edge",
	"ClaimPayload": "claim", "ClaimReply": "claim", "ClaimRun": "claim.runs",
	"GetCredentialPayload": "fetch:credential", "GetDataclipPayload": "fetch:dataclip",
	"GetPlanPayload": "fetch:plan", "GetPlanReply": "fetch:plan", "GetCredentialReply": "fetch:credential", "GetDataClipReply": "fetch:dataclip",
	"RunStartPayload": "run:start", "RunStartReply": "run:start", "RunCompletePayload": "run:complete", "RunCompleteReply": "run:complete",
	"ExitReason": "reason", "ExitReasonStrings": "reason",
	"RunLogLine": "run:log", "LegacyRunLogPayload": "run:log", "RunLogPayload": "run:batch_logs", "RunLogReply": "run:log",
	"StepStartPayload": "step:start", "StepStartReply": "step:start", "StepCompletePayload": "step:complete", "StepCompleteReply": "step:complete",
	"WebhookResponse": "webhook_response",
}

var (
	ofContract  = regexp.MustCompile(`^Lightning|(Payload|Reply)$`)
	declaration = regexp.MustCompile(`^export (?:declare )?(?:type|interface) (\w+)`)
	field       = regexp.MustCompile(`^\s+(?:readonly\s+)?'?(\w+)'?\??:`)
	event       = regexp.MustCompile(`^export type [A-Z_]+ = '([\w:.-]+)';`)
	comment     = regexp.MustCompile(`(?s)/\*.*?\*/|//[^\n]*`)
)

// contractNames returns the names in a file of types: fields behind what they belong to, and events.
func contractNames(source []byte) []string {
	names := make(map[string]bool)
	for name, fields := range typesIn(source) {
		prefix, known := contract[name]
		switch {
		case known:
			for _, f := range fields {
				names[prefix+"."+f] = true
			}
		case ofContract.MatchString(name):
			names["type "+name] = true
		}
	}
	for line := range bytes.Lines(source) {
		if m := event.FindSubmatch(bytes.TrimRight(line, "\r\n")); m != nil {
			names["event "+string(m[1])] = true
		}
	}
	return slices.Sorted(maps.Keys(names))
}

// typesIn returns the fields of each exported type, those of objects in it left out.
func typesIn(source []byte) map[string][]string {
	types := make(map[string][]string)
	var current string
	depth := 0
	scan := bufio.NewScanner(bytes.NewReader(comment.ReplaceAll(source, nil)))
	for scan.Scan() {
		line := scan.Text()
		if m := declaration.FindStringSubmatch(line); m != nil && depth == 0 {
			current = m[1]
			types[current] = nil
			inline := line[strings.Index(line, m[1])+len(m[1]):]
			if open, shut := strings.Index(inline, "{"), strings.LastIndex(inline, "}"); open >= 0 && shut > open {
				for _, member := range strings.FieldsFunc(inline[open+1:shut], func(c rune) bool { return c == ';' || c == ',' }) {
					if name, _, ok := strings.Cut(strings.TrimSpace(member), ":"); ok {
						types[current] = append(types[current], strings.TrimSuffix(name, "?"))
					}
				}
			}
		} else if m := field.FindStringSubmatch(line); m != nil && depth == 1 {
			types[current] = append(types[current], m[1])
		}
		depth += strings.Count(line, "{") - strings.Count(line, "}")
	}
	return types
}

var (
	option   = regexp.MustCompile(`\b(?:options|opts)\.([a-zA-Z]+)`)
	variable = regexp.MustCompile(`\bprocess\.env\.([A-Z_]+)`)
	errorOf  = regexp.MustCompile(`(?m)^\s*(?:name|type|subtype) = "(\w*Error|\w*Crash)"`)
	plainObj = regexp.MustCompile(`^type Options = \{`)
)

// codeNames returns the options behind what they belong to, the variables and the errors that a program reads or throws.
func codeNames(of string, source []byte) []string {
	names := make(map[string]bool)
	for _, m := range option.FindAllSubmatch(source, -1) {
		names[of+"."+string(m[1])] = true
	}
	for _, m := range variable.FindAllSubmatch(source, -1) {
		names["variable "+string(m[1])] = true
	}
	for _, m := range errorOf.FindAllSubmatch(source, -1) {
		names["error "+string(m[1])] = true
	}
	return slices.Sorted(maps.Keys(names))
}

// optionNames returns the fields of the type Options in a file of types, behind what they belong to.
func optionNames(of string, source []byte) (names []string) {
	inside := false
	scan := bufio.NewScanner(bytes.NewReader(comment.ReplaceAll(source, nil)))
	for scan.Scan() {
		line := scan.Text()
		switch m := field.FindStringSubmatch(line); {
		case plainObj.MatchString(line):
			inside = true
		case strings.HasPrefix(line, "}"):
			inside = false
		case inside && m != nil:
			names = append(names, of+"."+m[1])
		}
	}
	slices.Sort(names)
	return names
}
