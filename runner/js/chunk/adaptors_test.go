package chunk

import (
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var unheardOf = regexp.MustCompile(`("@openfn/language-common":\s*")3\.3\.5`)

// useRegistry has packages come from the registry that npm's settings name, which does not have the version of
// language-common that some adaptors want: they get the one before.
func useRegistry(t *testing.T) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), "npm", "config", "get", "registry").Output()
	require.NoError(t, err)
	upstream := strings.TrimSuffix(strings.TrimSpace(string(out)), "/")
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		request, _ := http.NewRequestWithContext(r.Context(), http.MethodGet, upstream+r.URL.EscapedPath(), nil)
		request.Header.Set("Accept", r.Header.Get("Accept"))
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		defer response.Body.Close()
		document, _ := io.ReadAll(response.Body)
		w.WriteHeader(response.StatusCode)
		_, _ = io.WriteString(w, unheardOf.ReplaceAllString(string(document), `${1}3.3.4`))
	}))
	t.Cleanup(proxy.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	t.Setenv("npm_config_registry", proxy.URL)
}

// The operations of the adaptors that the registry serves, as far as a server of HTTP can answer them: what they come to, and
// what the server was asked, in Node and in QuickJS.
func TestAdaptorsAreTheSame(t *testing.T) {
	useRegistry(t)
	for _, specifier := range []string{"@openfn/language-collections@0.8.0", "@openfn/language-fhir@5.0.15", "@openfn/language-openmrs@5.5.0"} {
		t.Run(specifier, func(t *testing.T) {
			server := newServer(t)
			var asked [2][]string
			lines := eachOf(t, "adaptors.js", specifier, specifier+" "+server.URL, func(i int) { asked[i] = server.take() })
			require.NotEmpty(t, asked[0])
			compare(t, lines)
			compare(t, asked)
		})
	}
}

// Guards against a database's adaptor that is taken for one that runs here: it loads, and asks for what is Node's alone.
func TestAdaptorsOfDatabasesAreForNode(t *testing.T) {
	useRegistry(t)
	store := storeOf(t, home(t, "@openfn/language-mssql@7.1.3"))
	client := newClient(t, "any")
	defer client.Close()
	lines := execute(t, store, client, `async (mssql, lib) => {
		try {
			await mssql.execute(mssql.sql('SELECT 1'))({ configuration: { server: 'localhost', userName: 'u', password: 'p', database: 'd' } });
		} catch (error) {
			return [error.code, error.message];
		}
		return ['success'];
	}`, "@openfn/language-mssql", "")
	require.Contains(t, lines[1], "dns.lookup of Node is not here")
}
