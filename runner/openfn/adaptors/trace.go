package adaptors

import "regexp"

// trace matches what follows an error of npm's for those who look for mistakes in npm: where in its code that
// was, and the members of the error.
var trace = regexp.MustCompile(`^ +(stack |at \S|(errno|code|syscall|path|dest|type|address|port|erroredSysCall|requiredBy|hostname|cause)'?: |'?[\w.-]+'?: .*,$|[\]})]+,?$)`)

// isTrace reports whether words behind "npm error" are such a line.
func isTrace(words string) bool { return trace.MatchString(words) }
