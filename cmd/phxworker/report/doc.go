// Package report sends errors of the log to Sentry.
//
// Records of level error and above become events, with their attributes. Nothing
// else does: no request, no user, no environment variable, no name of the host,
// and no package list; texts lose the queries of their URLs, what looks like a
// token, and the secrets that [Config.Hide] names.
//
// Reporting never waits: events are sent in the background, one at a time, and
// at most about a thousand are kept; those beyond are dropped, and so are those
// that Sentry does not take. [Reporter.Close] has two seconds for what is left.
package report
