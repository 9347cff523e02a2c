package main

import (
	"cmp"
	"debug/buildinfo"
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"strings"
	"time"
)

// bill is what a binary was made of, as the Go linker wrote it into the binary:
// the modules that are in it, and no others of go.mod.
type bill struct {
	goVersion string
	main      string
	modules   []module
	sha256    string
}

type module struct{ Path, Version, Sum string }

func inspect(binary string) (bill, error) {
	info, err := buildinfo.ReadFile(binary)
	if err != nil {
		return bill{}, err
	}
	b := bill{goVersion: info.GoVersion, main: info.Main.Path}
	for _, dep := range info.Deps {
		used := cmp.Or(dep.Replace, dep)
		b.modules = append(b.modules, module{Path: used.Path, Version: used.Version, Sum: used.Sum})
	}
	b.sha256, err = sha256sum(binary)
	return b, err
}

// The part of SPDX 2.3 that is needed, https://spdx.github.io/spdx-spec/v2.3/.
type (
	document struct {
		Version       string         `json:"spdxVersion"`
		DataLicense   string         `json:"dataLicense"`
		ID            string         `json:"SPDXID"`
		Name          string         `json:"name"`
		Namespace     string         `json:"documentNamespace"`
		Creation      creation       `json:"creationInfo"`
		Packages      []pkg          `json:"packages"`
		Relationships []relationship `json:"relationships"`
	}
	creation struct {
		Created  string   `json:"created"`
		Creators []string `json:"creators"`
	}
	pkg struct {
		ID           string      `json:"SPDXID"`
		Name         string      `json:"name"`
		Version      string      `json:"versionInfo"`
		Purpose      string      `json:"primaryPackagePurpose"`
		Download     string      `json:"downloadLocation"`
		Analyzed     bool        `json:"filesAnalyzed"`
		Concluded    string      `json:"licenseConcluded"`
		Declared     string      `json:"licenseDeclared"`
		Copyright    string      `json:"copyrightText"`
		Comment      string      `json:"comment,omitempty"`
		Checksums    []checksum  `json:"checksums,omitempty"`
		ExternalRefs []reference `json:"externalRefs"`
	}
	checksum struct {
		Algorithm string `json:"algorithm"`
		Value     string `json:"checksumValue"`
	}
	reference struct {
		Category string `json:"referenceCategory"`
		Type     string `json:"referenceType"`
		Locator  string `json:"referenceLocator"`
	}
	relationship struct {
		From string `json:"spdxElementId"`
		Type string `json:"relationshipType"`
		To   string `json:"relatedSpdxElement"`
	}
)

const unknown = "NOASSERTION"

// writeBill writes the SPDX document of a binary.
func writeBill(path, name string, src source, b bill) error {
	const binary = "SPDXRef-phxworker"
	worker := goPackage(binary, module{Path: b.main, Version: src.version})
	worker.Purpose, worker.Declared = "APPLICATION", "Apache-2.0"
	worker.Checksums = []checksum{{Algorithm: "SHA256", Value: b.sha256}}
	doc := document{
		Version: "SPDX-2.3", DataLicense: "CC0-1.0", ID: "SPDXRef-DOCUMENT", Name: name,
		// It must be unique to the document, and need not be there.
		Namespace:     "https://" + b.main + "/releases/" + src.version + "/" + name + "-" + b.sha256,
		Creation:      creation{Created: src.time.Format(time.RFC3339), Creators: []string{"Tool: phxworker/deploy/release"}},
		Packages:      []pkg{worker},
		Relationships: []relationship{{From: "SPDXRef-DOCUMENT", Type: "DESCRIBES", To: binary}},
	}
	standard := module{Path: "stdlib", Version: strings.TrimPrefix(b.goVersion, "go")}
	for i, m := range append([]module{standard}, b.modules...) {
		id := fmt.Sprintf("SPDXRef-module-%d", i)
		doc.Packages = append(doc.Packages, goPackage(id, m))
		doc.Relationships = append(doc.Relationships, relationship{From: binary, Type: "DEPENDS_ON", To: id})
	}
	text, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(path, append(text, '\n'), 0o644) //nolint:gosec // a release is for everybody
}

func goPackage(id string, m module) pkg {
	p := pkg{
		ID: id, Name: m.Path, Version: m.Version, Purpose: "LIBRARY",
		Download: unknown, Concluded: unknown, Declared: unknown, Copyright: unknown,
		ExternalRefs: []reference{{
			Category: "PACKAGE-MANAGER", Type: "purl",
			Locator: "pkg:golang/" + strings.ToLower(m.Path) + "@" + url.QueryEscape(m.Version),
		}},
	}
	if m.Sum != "" {
		p.Comment = "go.sum has " + m.Sum
	}
	return p
}
