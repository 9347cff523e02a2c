// Command docgen writes the table of options as a page of documentation,
// OPTIONS.md in the current folder.
package main

import (
	"fmt"
	"os"

	"github.com/phxworker/phxworker/cmd/phxworker/options"
)

func main() {
	if err := os.WriteFile("OPTIONS.md", []byte(options.Markdown()), 0o600); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}
