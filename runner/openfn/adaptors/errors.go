package adaptors

// InstallError is why a package is not there: the registry does not give it out, or
// nothing can be installed here.
type InstallError struct {
	// Specifier is what was asked for.
	Specifier string
	// Reason is one line for people.
	Reason string
	// Unable tells that the reason lies in this machine, its network or its registry,
	// and not in what was asked for: other packages would not be installed either.
	Unable bool
	// Closed tells that the folder takes no writes.
	Closed bool
}

func (e *InstallError) Error() string { return "Error installing " + e.Specifier + ": " + e.Reason }
