package adaptors

import (
	"slices"

	"github.com/phxworker/phxworker/runner/command"
)

// ofNPM are the variables that npm gets besides those of a job: where its settings and
// folders are, the network's proxies, and certificates that are trusted.
var ofNPM = []string{
	"HOME", "TMPDIR", "npm_config_*", "NPM_CONFIG_*",
	"HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy", "proxy",
	"NODE_EXTRA_CA_CERTS", "NODE_USE_SYSTEM_CA", "SSL_CERT_FILE", "SSL_CERT_DIR",
}

func (r *Repo) npmEnv() []string {
	return command.Environment(slices.Concat(ofNPM, r.env)...)
}

// jobEnv is the environment in which the code of a package may run: the same as
// that of a job. esbuild needs no more either.
func jobEnv() []string { return command.Environment() }
