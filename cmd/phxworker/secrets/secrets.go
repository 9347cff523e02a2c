// Package secrets reads a secret from a file that holds nothing else, so that it
// stands neither on a command line, which every user of the machine can read, nor in a
// variable.
package secrets

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
)

// largest bounds a secret, in bytes, and the mistake of naming another file.
const largest = 16 << 10

// Read returns the one line of the file, without its end, and whether everybody on
// this machine can read the file. The error names the file and says what is wrong with it;
// it quotes nothing of it.
func Read(path string) (secret string, open bool, err error) {
	file, err := os.Open(path) //nolint:gosec // named by whoever starts the program
	if err != nil {
		return "", false, fmt.Errorf("the file cannot be read: %w", err)
	}
	defer func() { _ = file.Close() }()
	text, err := io.ReadAll(io.LimitReader(file, largest+1))
	info, failure := file.Stat()
	if err = errors.Join(err, failure); err != nil {
		return "", false, fmt.Errorf("the file cannot be read: %w", err)
	}
	secret = strings.TrimSuffix(strings.TrimSuffix(string(text), "\n"), "\r")
	switch {
	case len(text) > largest:
		return "", false, fmt.Errorf("%s is too large for a secret: name a file with the secret alone", path)
	case strings.TrimSpace(secret) == "":
		return "", false, fmt.Errorf("%s is empty: write the secret into it", path)
	case strings.ContainsAny(secret, "\r\n"):
		return "", false, fmt.Errorf("%s has several lines: write the secret alone into it, in one", path)
	}
	return secret, info.Mode()&0o004 != 0, nil
}
