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

// verified is what a test has compared with Node.
var verified = func() (list struct {
	// Adaptors are those whose operations were compared; Packages is all that they consist of. Each is a name and a version.
	Adaptors []string `json:"adaptors"`
	Packages []string `json:"packages"`
},
) {
	if err := json.Unmarshal(verifiedText, &list); err != nil {
		panic("packages: verified.json: " + err.Error())
	}
	return list
}()

func isVerified(adaptor string) bool { return slices.Contains(verified.Adaptors, adaptor) }

func isPartOfVerified(packaged string) bool { return slices.Contains(verified.Packages, packaged) }
