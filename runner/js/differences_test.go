package js

// differences are the recorded runs that come to something else here, and why.
var differences = map[string]string{}
