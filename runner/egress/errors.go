package egress

import "syscall"

// Error is that a job may not connect to a host, or exchange no more. Its members are those that errors have in Node.
type Error struct {
	// Name is the error's in Node, "" for Error.
	Name string
	// Code is EACCES for a host, EDQUOT for what the run has used up, EMFILE for connections that are open at once,
	// ETIMEDOUT for time, and undici's UND_ERR_RES_EXCEEDED_MAX_SIZE for one response.
	Code string
	// Errno is negative, 0 for none; Syscall is "" for none.
	Errno   int
	Syscall string
	// Address and Port are where the connection would have gone, "" and 0 if that is not known.
	Address string
	Port    int

	message string
	limit   string // which one struck, "" for none
}

func (e *Error) Error() string { return e.message }

// Members returns what a job sees of the error, by the names of its members.
func (e *Error) Members() map[string]any {
	members := map[string]any{"message": e.message, "code": e.Code}
	if e.Name != "" {
		members["name"] = e.Name
	}
	if e.Errno != 0 {
		members["errno"] = e.Errno
	}
	if e.Syscall != "" {
		members["syscall"] = e.Syscall
	}
	if e.Address != "" {
		members["address"], members["port"] = e.Address, e.Port
	}
	return members
}

// limit returns the error of a limit that struck: what says which, to people.
func limit(code string, errno syscall.Errno, what string) *Error {
	return &Error{Code: code, Errno: -int(errno), message: code + ": " + what, limit: what}
}
