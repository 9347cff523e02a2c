package npm

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"
)

// Settings are npm's, as far as they matter here.
type Settings struct {
	registry string            // ends in a slash, as those below do
	scopes   map[string]string // registries, by scope with its @
	logins   map[string]login  // by host and path, as in //host/path/

	// Cache is the folder that npm is told to keep things in; empty if it is told none.
	Cache string

	offline, preferOffline bool
	tag                    string
	before                 time.Time
	legacyPeers            bool
	insecure               bool   // certificates are not looked at
	authorities            []byte // certificates that are trusted in place of the system's
	moreAuthorities        []byte // and beside them
	proxy, secureProxy     string
	noProxy                string
	sockets                int
	retries                int
	retryWait, retryLimit  time.Duration
	stall                  time.Duration // how long nothing may come
}

// A login is how to introduce oneself to a registry.
type login struct {
	authorization     string // the header
	user, password    string
	certFile, keyFile string
}

const defaultRegistry = "https://registry.npmjs.org/"

// Load reads settings from where npm does: the environment, the .npmrc of folder, that of the
// user, and that of the machine, in this order. A setting that is not known has no
// effect. Of variables, ${NAME} in a file stands for the value of one, but for those that
// hidden is true of. Environment is as from [os.Environ]. The error is an [*Error] that names the file.
func Load(folder string, environment []string, hidden func(name string) bool) (Settings, error) {
	l := loader{env: make(map[string]string), hidden: hidden, values: make(map[string][]string)}
	for _, entry := range environment {
		name, value, _ := strings.Cut(entry, "=")
		l.env[name] = value
	}
	for name, value := range l.env {
		if key, ok := settingOf(name); ok && value != "" {
			l.values[key] = []string{l.expand(value)}
		}
	}
	l.read(filepath.Join(folder, ".npmrc"))
	if home := l.env["HOME"]; home != "" || l.last("userconfig") != "" { // else nobody's settings but the folder's are meant
		l.read(cmp.Or(l.last("userconfig"), filepath.Join(home, ".npmrc")))
		l.read(cmp.Or(l.last("globalconfig"), filepath.Join(cmp.Or(l.last("prefix"), "/usr/local"), "etc", "npmrc")))
	}
	s := l.settings()
	return s, l.wrong
}

// settingOf is the setting that a variable of the environment is for.
func settingOf(name string) (key string, ok bool) {
	const prefix = "npm_config_"
	if len(name) <= len(prefix) || !strings.EqualFold(name[:len(prefix)], prefix) {
		return "", false
	}
	key = name[len(prefix):]
	if strings.HasPrefix(key, "//") {
		return key, true
	}
	key = strings.ToLower(key)
	return key[:1] + strings.ReplaceAll(key[1:], "_", "-"), true
}

// A loader collects settings. What was found first stays, and what was wrong first is told.
type loader struct {
	env    map[string]string
	hidden func(string) bool
	values map[string][]string
	wrong  error
}

func misconfigured(format string, args ...any) error {
	return &Error{Kind: Misconfigured, Reason: "npm's settings: " + fmt.Sprintf(format, args...)}
}

func (l *loader) failf(format string, args ...any) {
	if l.wrong == nil {
		l.wrong = misconfigured(format, args...)
	}
}

const maxSettings = 1 << 20

// read reads a file, if it is there and may be read.
func (l *loader) read(path string) {
	f, err := os.Open(path) //nolint:gosec // where npm looks
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
		return
	}
	var text []byte
	if err == nil {
		defer f.Close()
		text, err = io.ReadAll(io.LimitReader(f, maxSettings))
	}
	if err != nil {
		l.failf("%s cannot be read: %s", path, oneLine(err))
	}
	found := make(map[string][]string)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.IndexByte("#;[", line[0]) >= 0 {
			continue // sections mean nothing to npm
		}
		key, value, given := strings.Cut(line, "=")
		if !given {
			value = "true"
		}
		key, listed := strings.CutSuffix(unquote(l.expand(strings.TrimSpace(key))), "[]")
		if !listed {
			found[key] = nil
		}
		found[key] = append(found[key], l.expand(unquote(strings.TrimSpace(value))))
	}
	for key, values := range found {
		if _, known := l.values[key]; !known {
			l.values[key] = values
		}
	}
}

// unquote takes quotes away, and what is a comment behind a value.
func unquote(text string) string {
	if len(text) >= 2 && (text[0] == '"' || text[0] == '\'') && text[len(text)-1] == text[0] {
		if plain, err := strconv.Unquote(text); err == nil && text[0] == '"' {
			return plain
		}
		return text[1 : len(text)-1]
	}
	var out strings.Builder
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case c == '\\' && i+1 < len(text) && strings.IndexByte(`\;#`, text[i+1]) >= 0:
			i++
			out.WriteByte(text[i])
		case c == ';' || c == '#':
			return strings.TrimSpace(out.String())
		default:
			out.WriteByte(c)
		}
	}
	return out.String()
}

var variable = regexp.MustCompile(`(\\*)\$\{([^${}?]+)(\?)?\}`)

// expand puts in the values of variables. One that is not set stays as it stands, unless a
// question mark lets it be empty.
func (l *loader) expand(text string) string {
	return variable.ReplaceAllStringFunc(text, func(found string) string {
		parts := variable.FindStringSubmatch(found)
		if len(parts[1])%2 == 1 {
			return found[len(parts[1])/2+1:]
		}
		value, set := l.env[parts[2]]
		switch {
		case set && (l.hidden == nil || !l.hidden(parts[2])):
			return parts[1][:len(parts[1])/2] + value
		case parts[3] != "":
			return ""
		}
		return found
	})
}

// last is the value of a setting, of which the last counts where there are several.
func (l *loader) last(key string) string {
	if values := l.values[key]; len(values) > 0 {
		return values[len(values)-1]
	}
	return ""
}

// given is last without the words by which npm writes that there is none.
func (l *loader) given(key string) string {
	if text := l.last(key); text != "null" && text != "false" {
		return text
	}
	return ""
}

func (l *loader) flag(key string, otherwise bool) bool {
	text := cmp.Or(l.last(key), strconv.FormatBool(otherwise))
	if text != "true" && text != "false" && text != "null" {
		l.failf("%s has to be true or false", key)
	}
	return text == "true"
}

func (l *loader) number(key string, otherwise int) int {
	n, err := strconv.Atoi(cmp.Or(l.last(key), strconv.Itoa(otherwise)))
	if err != nil || n < 0 {
		l.failf("%s has to be a number", key)
	}
	return n
}

func (l *loader) milliseconds(key string, otherwise int) time.Duration {
	return time.Duration(l.number(key, otherwise)) * time.Millisecond
}

// proxyOf is a setting, or the variable that stands for it elsewhere.
func (l *loader) proxyOf(key, variable string) string {
	if _, set := l.values[key]; set {
		return l.given(key)
	}
	return cmp.Or(l.env[variable], l.env[strings.ToLower(variable)])
}

func (l *loader) settings() Settings {
	s := Settings{
		registry: l.address("registry", cmp.Or(l.last("registry"), defaultRegistry)),
		scopes:   make(map[string]string), logins: make(map[string]login),
		Cache:   l.last("cache"),
		offline: l.flag("offline", false), preferOffline: l.flag("prefer-offline", false),
		tag:             cmp.Or(l.last("tag"), "latest"),
		before:          l.beforeWhen(),
		legacyPeers:     l.flag("legacy-peer-deps", false),
		insecure:        !l.flag("strict-ssl", true),
		authorities:     l.certificates("cafile", l.given("cafile")),
		moreAuthorities: l.certificates("NODE_EXTRA_CA_CERTS", l.env["NODE_EXTRA_CA_CERTS"]),
		proxy:           l.proxyOf("proxy", "HTTP_PROXY"),
		secureProxy:     cmp.Or(l.proxyOf("https-proxy", "HTTPS_PROXY"), l.last("proxy")),
		noProxy:         cmp.Or(l.last("noproxy"), l.proxyOf("no-proxy", "NO_PROXY")),
		sockets:         max(1, l.number("maxsockets", 15)),
		retries:         min(10, l.number("fetch-retries", 2)),
		retryWait:       l.milliseconds("fetch-retry-mintimeout", 1_000),
		retryLimit:      l.milliseconds("fetch-retry-maxtimeout", 5_000),
		stall:           l.milliseconds("fetch-timeout", 60_000),
	}
	if below, ok := strings.CutPrefix(s.Cache, "~/"); ok {
		s.Cache = filepath.Join(l.env["HOME"], below)
	}
	if l.given("ca") != "" {
		s.authorities = []byte(strings.ReplaceAll(strings.Join(l.values["ca"], "\n"), `\n`, "\n"))
	}
	for _, key := range slices.Sorted(maps.Keys(l.values)) {
		if scope, ok := strings.CutSuffix(key, ":registry"); ok && strings.HasPrefix(scope, "@") {
			s.scopes[scope] = l.address(key, l.last(key))
		}
		l.login(s.logins, key)
	}
	return s
}

func (l *loader) address(key, text string) string {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		l.failf("%s is not the address of a registry: write one such as https://registry.example/", key) // the address may have a password in it
		return defaultRegistry
	}
	return strings.TrimSuffix(text, "/") + "/"
}

func (l *loader) beforeWhen() time.Time {
	if text := l.given("before"); text != "" {
		for _, layout := range []string{time.RFC3339Nano, time.DateOnly} {
			if at, err := time.Parse(layout, text); err == nil {
				return at
			}
		}
		l.failf("before has to be a date such as 2026-01-31")
	}
	if days := l.number("min-release-age", 0); days > 0 {
		return time.Now().AddDate(0, 0, -days)
	}
	return time.Time{}
}

func (l *loader) certificates(key, path string) []byte {
	if path == "" {
		return nil
	}
	text, err := os.ReadFile(path) //nolint:gosec // the setting names it
	if err != nil {
		l.failf("the certificates of %s cannot be read: %s", key, oneLine(err))
	}
	return text
}

// login adds what a setting says of a registry, as in //host/path/:_authToken.
func (l *loader) login(logins map[string]login, key string) {
	at := strings.LastIndexByte(key, ':')
	if !strings.HasPrefix(key, "//") || at < 0 {
		if key == "_authToken" || key == "_auth" || key == "_password" {
			l.failf("%s has to say for which registry it is, as in //registry.example/:%s=…", key, key)
		}
		return
	}
	where, what, value := strings.TrimSuffix(key[:at], "/")+"/", key[at+1:], l.last(key)
	if variable.MatchString(value) && what != "certfile" && what != "keyfile" {
		l.failf("%s speaks of a variable that is not set, or is the worker's own", key)
		return
	}
	is := logins[where]
	switch what {
	case "_authToken":
		is.authorization = "Bearer " + value
	case "_auth":
		if is.authorization == "" {
			is.authorization = "Basic " + value
		}
	case "username":
		is.user = value
	case "_password":
		if plain, err := base64.StdEncoding.DecodeString(value); err == nil {
			is.password = string(plain)
		} else {
			l.failf("%s has to be in base64", key)
		}
	case "certfile":
		is.certFile = value
	case "keyfile":
		is.keyFile = value
	}
	if is.authorization == "" && is.user != "" && is.password != "" {
		is.authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(is.user+":"+is.password))
	}
	logins[where] = is
}

// registryOf is the address of the registry that a package comes from.
func (s *Settings) registryOf(name string) string {
	if scope, _, ok := strings.Cut(name, "/"); ok {
		if address := s.scopes[scope]; address != "" {
			return address
		}
	}
	return s.registry
}

// loginFor is that for an address: of the registry with the longest path that it is below.
func (s *Settings) loginFor(u *url.URL) login {
	for at := "//" + u.Host + strings.TrimSuffix(u.EscapedPath(), "/") + "/"; len(at) > len("//"+u.Host); {
		if found, ok := s.logins[at]; ok {
			return found
		}
		at = at[:strings.LastIndexByte(strings.TrimSuffix(at, "/"), '/')+1]
	}
	return login{}
}
