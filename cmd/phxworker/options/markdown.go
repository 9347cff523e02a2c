package options

import (
	"fmt"
	"strings"
)

// Markdown returns the table as a page of documentation.
func Markdown() string {
	var b strings.Builder
	b.WriteString(`# Options of phxworker

<!-- Generated from options/table.go by "go generate ./cmd/phxworker". -->

A flag beats an environment variable, that beats the config file, and an empty
value counts as none. All options of OpenFn's ws-worker, up to ` + Counterpart + `, are accepted
under their names; those marked *new* are this worker's own. A variable ` + "`WORKER_…`" + ` that is
none of them is warned of.

An option that is on or off is switched by its flag alone and by --no-FLAG; as a value,
with "=", in a variable or in a file, it takes ` + toggleWords + `.

A config file is YAML with the names of the flags, without their dashes, and "name"
for WORKER_NAME:

    capacity: 10
    log: debug
    loop: true
    state-props-to-remove: [configuration, response]

` + "`phxworker config`" + ` shows what all options come to and where each was set, as such
a file, and checks them.

| flag | environment | default | meaning |
|---|---|---|---|
`)
	for _, o := range Table() {
		if o.NoEffect == "" {
			fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", o.markdownFlag(), code(o.Env...), code(o.Default), o.markdownUsage())
		}
	}
	b.WriteString(`
## Without effect

These are accepted, so that a deployment need not change, and one line of the log
says so when one is set.

| flag | environment | why |
|---|---|---|
`)
	for _, o := range Table() {
		if o.NoEffect != "" {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", o.markdownFlag(), code(o.Env...), o.NoEffect)
		}
	}
	return b.String()
}

func (o Option) markdownFlag() string {
	if o.Flag == "" {
		return ""
	}
	names := []string{"--" + o.Flag}
	for _, alias := range o.Aliases {
		if len(alias) == 1 {
			names = append(names, "-"+alias)
		} else {
			names = append(names, "--"+alias)
		}
	}
	return code(names...)
}

func (o Option) markdownUsage() string {
	if o.Ours {
		return "*new:* " + o.Usage
	}
	return o.Usage
}

func code(words ...string) string {
	var quoted []string
	for _, word := range words {
		if word != "" {
			quoted = append(quoted, "`"+word+"`")
		}
	}
	return strings.Join(quoted, " ")
}
