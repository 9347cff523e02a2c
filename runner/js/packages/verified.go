package packages

import (
	_ "embed"
	"encoding/json"
	"slices"
)

// verifiedText is written by TestVerifiedAdaptors.
//
//go:embed verified.json
var verifiedText []byte

// verifiedList is adaptors whose operations were compared, and all packages that they consist of. Each is a name and a version.
type verifiedList struct {
	Adaptors []string `json:"adaptors"`
	Packages []string `json:"packages"`
}

// verified is what a test has compared with Node.
var verified = func() (list verifiedList) {
	if err := json.Unmarshal(verifiedText, &list); err != nil {
		panic("packages: verified.json: " + err.Error())
	}
	return list
}()

func isVerified(adaptor string) bool { return slices.Contains(verified.Adaptors, adaptor) }

func isPartOfVerified(packaged string) bool { return slices.Contains(verified.Packages, packaged) }
