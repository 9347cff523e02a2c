package chunk

import (
	"crypto/hmac"
	"crypto/md5" //nolint:gosec // what a package asks for
	"crypto/pbkdf2"
	"crypto/rand"
	"crypto/sha1" //nolint:gosec // what a package asks for
	"crypto/sha256"
	"crypto/sha3"
	"crypto/sha512"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"hash"
	"strconv"
	"strings"

	"github.com/google/uuid"
	whatwg "github.com/nlnwa/whatwg-url/url"
)

// Loader is the text of a function that makes the require of packages; see loader.js.
//
//go:embed loader.js
var Loader string

// Missing is the operation by which a builtin that nothing stands in for tells that it was called, by its name.
const Missing = "missing"

// mostRandom bounds how many random bytes are made at once.
const mostRandom = 1 << 20

// mostIterations bounds PBKDF2: nothing interrupts it.
const mostIterations = 2_000_000

var hashes = map[string]func() hash.Hash{
	"md5": md5.New, "sha1": sha1.New, "sha224": sha256.New224, "sha256": sha256.New, "sha384": sha512.New384, "sha512": sha512.New,
	"sha512224": sha512.New512_224, "sha512256": sha512.New512_256,
	"sha3224": func() hash.Hash { return sha3.New224() }, "sha3256": func() hash.Hash { return sha3.New256() },
	"sha3384": func() hash.Hash { return sha3.New384() }, "sha3512": func() hash.Hash { return sha3.New512() },
}

// Call answers what the stand-ins for Node's builtins ask of Go. Bytes are texts in base64.
func Call(operation string, args []any) (any, error) {
	text := func(i int) string {
		if i >= len(args) {
			return ""
		}
		s, _ := args[i].(string)
		return s
	}
	switch operation {
	case "uuid":
		return uuid.NewString(), nil
	case "random":
		bytes := make([]byte, min(max(number(args), 0), mostRandom))
		_, err := rand.Read(bytes)
		return base64.StdEncoding.EncodeToString(bytes), err
	case "hash", "hmac":
		return digest(operation, text(0), text(1), text(2))
	case "pbkdf2":
		return derive(text(0), text(1), text(2), text(3), text(4))
	case "pack", "unpack":
		return converted(operation, text(0), text(1), text(2), text(3) != "")
	case Missing: // who listens to that does it beforehand
		return nil, nil
	case "url":
		return parseURL(text(0), text(1)), nil
	case "url-set":
		return changeURL(text(0), text(1), text(2)), nil
	}
	return nil, fmt.Errorf("nobody answers %q", operation)
}

func number(args []any) int {
	if len(args) == 0 {
		return 0
	}
	switch n := args[0].(type) {
	case int:
		return n
	case float64:
		return int(n)
	}
	return 0
}

// derive returns the key that PBKDF2 makes of a password.
func derive(name, password, salt, iterations, length string) (any, error) {
	secret, err := base64.StdEncoding.DecodeString(password)
	if err != nil {
		return nil, err
	}
	grains, err := base64.StdEncoding.DecodeString(salt)
	if err != nil {
		return nil, err
	}
	times, _ := strconv.Atoi(iterations)
	size, _ := strconv.Atoi(length)
	if known := hashes[name]; known != nil && times > 0 && times <= mostIterations && size >= 0 && size <= mostRandom {
		key, err := pbkdf2.Key(known, string(secret), grains, times, size)
		return base64.StdEncoding.EncodeToString(key), err
	}
	return nil, errors.New("PBKDF2 takes one of the hashes and numbers that are not too large")
}

func digest(operation, name, data, key string) (any, error) {
	known := hashes[strings.ToLower(strings.ReplaceAll(name, "-", ""))]
	if known == nil {
		return nil, fmt.Errorf("Digest method not supported: %s", name) //nolint:staticcheck // as Node words it
	}
	h := known()
	if operation == "hmac" {
		secret, err := base64.StdEncoding.DecodeString(key)
		if err != nil {
			return nil, err
		}
		h = hmac.New(known, secret)
	}
	bytes, err := base64.StdEncoding.DecodeString(data)
	if err != nil {
		return nil, err
	}
	h.Write(bytes)
	return base64.StdEncoding.EncodeToString(h.Sum(nil)), nil
}

// parseURL returns the parts of a URL as JSON, nil for what is none.
func parseURL(text, base string) any {
	var u *whatwg.Url
	var err error
	if base == "" {
		u, err = whatwg.Parse(text)
	} else {
		u, err = whatwg.ParseRef(base, text)
	}
	if err != nil {
		return nil
	}
	return partsOf(u)
}

func changeURL(href, part, value string) any {
	if part == "href" {
		return parseURL(value, "")
	}
	u, err := whatwg.Parse(href)
	if err != nil {
		return nil
	}
	set := map[string]func(string){
		"protocol": u.SetProtocol, "username": u.SetUsername, "password": u.SetPassword, "host": u.SetHost, "hostname": u.SetHostname,
		"port": u.SetPort, "pathname": u.SetPathname, "search": u.SetSearch, "hash": u.SetHash,
	}[part]
	if set == nil {
		return nil
	}
	set(value)
	return partsOf(u)
}

func partsOf(u *whatwg.Url) any {
	origin := "null"
	switch u.Scheme() {
	case "http", "https", "ftp", "ws", "wss":
		origin = u.Protocol() + "//" + u.Host()
	}
	parts, _ := json.Marshal(map[string]string{ // cannot fail
		"href": u.Href(false), "origin": origin, "protocol": u.Protocol(), "username": u.Username(), "password": u.Password(),
		"host": u.Host(), "hostname": u.Hostname(), "port": u.Port(), "pathname": u.Pathname(), "search": u.Search(), "hash": u.Hash(),
	})
	return string(parts)
}
