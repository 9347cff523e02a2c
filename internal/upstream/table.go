package main

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
)

// table is what docs/compatibility.md knows.
type table struct {
	rows     []row
	versions map[string]string // of packages
}

// row is one of it.
type row struct {
	names              []string // fields, events, options, variables, errors
	since, where, test string
}

// heading begins the section of the table.
const heading = "## What of OpenFn is known\n"

var code = regexp.MustCompile("`([^`]+)`")

// readTable reads the section of the page.
func readTable(page []byte) (table, error) {
	t := table{versions: make(map[string]string)}
	_, section, found := bytes.Cut(page, []byte(heading))
	if !found {
		return t, fmt.Errorf("the page has no section %q", strings.TrimSpace(heading))
	}
	section, _, _ = bytes.Cut(section, []byte("\n## "))
	for line := range strings.Lines(string(section)) {
		cells := strings.Split(strings.Trim(strings.TrimSpace(line), "|"), " | ")
		if len(cells) < 2 || !strings.HasPrefix(line, "| `") {
			continue
		}
		var names []string
		for _, m := range code.FindAllStringSubmatch(cells[0], -1) {
			names = append(names, m[1])
		}
		switch {
		case len(cells) == 2:
			t.versions[names[0]] = strings.TrimSpace(cells[1])
		case len(cells) == 4:
			t.rows = append(t.rows, row{names, strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3])})
		default:
			return t, fmt.Errorf("a row has %d cells: %s", len(cells), line)
		}
	}
	return t, nil
}

// lacks returns those of the names that the table does not have.
func (t table) lacks(names []string) (unknown []string) {
	known := make(map[string]bool)
	for _, r := range t.rows {
		for _, name := range r.names {
			known[name] = true
		}
	}
	for _, name := range names {
		if !known[name] {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
