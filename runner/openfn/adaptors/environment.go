package adaptors

import (
	"slices"
	"strings"

	"github.com/phxworker/phxworker/runner/command"
)

// ofNPM are the variables that npm gets besides those of a job: where its settings and
// folders are, the network's proxies, and certificates that are trusted.
var ofNPM = []string{
	"HOME", "TMPDIR", "npm_config_*", "NPM_CONFIG_*",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "proxy",
	"NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

// maybeMissed are the variables that npm may miss, which it does not get unless they are
// named: those of Node, of registries' credentials, and of shims that stand for npm.
var maybeMissed = []string{
	"NODE_OPTIONS", "NODE_PATH", "NODE_TLS_REJECT_UNAUTHORIZED", "NPM_TOKEN", "NODE_AUTH_TOKEN",
	"ASDF_*", "COREPACK_*", "FNM_*", "MISE_*", "NODENV_*", "NVM_*", "VOLTA_*",
}

// keptBack returns the names of the variables that npm may miss.
func (r *Repo) keptBack() []string {
	given := r.npmEnv()
	var names []string
	for _, entry := range command.Environment(maybeMissed...) {
		if name, value, _ := strings.Cut(entry, "="); value != "" && !slices.Contains(given, entry) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

func (r *Repo) npmEnv() []string {
	return command.Environment(slices.Concat(ofNPM, r.env)...)
}
