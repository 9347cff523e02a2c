package js

import (
	"encoding/json"
	"net/url"
	"strings"
)

// parseURL returns the parts of a URL, as JSON, for the prelude's URL. It
// returns "" for what is none.
func parseURL(text, base string) string {
	u, err := url.Parse(strings.TrimSpace(text))
	if err == nil && base != "" {
		var root *url.URL
		if root, err = url.Parse(strings.TrimSpace(base)); err == nil {
			u = root.ResolveReference(u)
		}
	}
	if err != nil || !u.IsAbs() || (u.Opaque == "" && u.Host == "" && u.Scheme != "file") {
		return ""
	}
	path := u.EscapedPath()
	switch {
	case u.Opaque != "":
		path = u.Opaque
	case path == "":
		path = "/"
	}
	password, _ := u.User.Password()
	parts := map[string]any{
		"protocol": strings.ToLower(u.Scheme) + ":", "hostname": strings.ToLower(bracketed(u.Hostname())), "port": u.Port(),
		"username": url.PathEscape(u.User.Username()), "password": url.PathEscape(password),
		"pathname": path, "search": marked("?", u.RawQuery), "hash": marked("#", u.EscapedFragment()),
		"authority": u.Opaque == "",
	}
	answer, err := json.Marshal(parts)
	if err != nil {
		return ""
	}
	return string(answer)
}

// bracketed writes an IPv6 address as it stands in a URL.
func bracketed(host string) string {
	if strings.Contains(host, ":") {
		return "[" + host + "]"
	}
	return host
}

// marked puts the mark in front of a part that is there.
func marked(mark, part string) string {
	if part == "" {
		return ""
	}
	return mark + strings.ReplaceAll(part, " ", "%20")
}
