package recorded

// differences are the recorded runs that come to something else, and why, by
// engine. docs/compatibility.md lists the same.
var differences = map[string]map[string]string{
	"js": {
		"graph-diamond":           joined,
		"log-class-hangs":         loggedFunction,
		"log-function-hangs":      loggedFunction,
		"log-errors":              "every error that is logged arrives with its name and message, not only those of class Error",
		"log-bigint":              bigInt,
		"log-console-missing":     "the console has no methods of the engine's own logger",
		"cred-leak":               scrubbed,
		"state-return-number":     wrapped,
		"state-return-string":     wrapped,
		"js-bigint-literal":       laterSyntax,
		"js-buffer":               sandbox,
		"js-class-field-instance": laterSyntax,
		"js-numeric-separator":    laterSyntax,
		"js-regex-flag-v":         laterSyntax,
		"js-unicode-comments":     nul,
	},
	"openfn": {
		"cred-leak":               scrubbed,
		"graph-diamond":           joined,
		"js-bigint-literal":       laterSyntax,
		"js-buffer":               sandbox,
		"js-class-field-instance": laterSyntax,
		"js-numeric-separator":    laterSyntax,
		"js-regex-flag-v":         laterSyntax,
		"log-bigint":              bigInt,
		"log-class-hangs":         loggedFunction,
		"log-function-hangs":      loggedFunction,
		"js-unicode-comments":     nul,
		"state-return-number":     wrapped,
		"state-return-string":     wrapped,
	},
}

const (
	sandbox        = "an error of the sandbox is a JobError; in the recording, OpenFn's runtime took itself for an adaptor because of the folder it lay in"
	joined         = "a step where branches join names the dataclip that it was given, not that of the last branch"
	scrubbed       = "secrets of credentials are replaced by *** in log lines"
	bigInt         = "a BigInt arrives as its digits; OpenFn's engine replaces the whole line by a note"
	loggedFunction = "a function or class that is logged arrives as null; OpenFn's engine hangs"
	wrapped        = `a final state that is no object is sent as {"value": …}; Lightning loses a run that ends with anything else`
	nul            = "U+0000 becomes U+FFFD; Lightning's database cannot store it, and its channel crashes"
	laterSyntax    = "syntax that OpenFn's compiler refuses is accepted"
)
