package deploy

import (
	"encoding/json"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/phxworker/phxworker/mockserver"
)

// The worker starts with what the manifest says, the secrets filled in, answers the
// manifest's probes, takes a run, and ends within its time.
func TestTheDeploymentRuns(t *testing.T) {
	for name, token := range map[string]string{"with a token": "let me in", "without": ""} {
		t.Run(name, func(t *testing.T) { runDeployment(t, token) })
	}
}

func runDeployment(t *testing.T, token string) {
	t.Helper()
	server := startServer(t)
	_, c := deployment(t)
	environment := settings(c)
	secrets := map[string]string{"worker-secret": server.Secret(), "lightning-public-key": server.PublicKey(), "http-token": token}
	for _, variable := range c.Env {
		switch from := variable.ValueFrom; {
		case from == nil:
		case from.SecretKeyRef != nil:
			environment[variable.Name] = secrets[from.SecretKeyRef.Key]
		default:
			environment[variable.Name] = "phxworker-0"
		}
	}
	// What cannot be here as it is there.
	environment["WORKER_LIGHTNING_SERVICE_URL"] = server.URL()
	environment["WORKER_REPO_DIR"] = t.TempDir()
	environment["WORKER_PORT"] = "0"
	environment["PATH"] = os.Getenv("PATH")
	environment["TMPDIR"] = t.TempDir() // an emptyDir is

	w := start(t, server, exec.CommandContext(t.Context(), binary, c.Args...), environment)
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		w.answers(probe.HTTPGet.Path)
	}
	d, _ := deployment(t)
	w.answers(d.Spec.Template.Annotations["prometheus.io/path"])

	plan := json.RawMessage(`{"id":"run-1","jobs":[{"id":"a","adaptor":"@openfn/language-common@3.3.4","body":"fn(state => state)"}],"triggers":[],"edges":[]}`)
	_, err := server.Enqueue(mockserver.Run{Plan: plan, Queue: "manual"})
	require.NoError(t, err)
	result, err := server.Wait(t.Context(), "run-1")
	require.NoError(t, err)
	require.Equal(t, "success", string(result.State), "%s\n%s", result.ErrorMessage, w.stderr)

	control := exec.CommandContext(t.Context(), binary, "pause", "--url", w.url) // as with kubectl exec
	control.Env = w.cmd.Env
	out, err := control.CombinedOutput()
	require.NoError(t, err, string(out))
	require.Zero(t, w.stop(), w.stderr)
	require.NotContains(t, w.stderr.String(), "let me in")
	require.NotContains(t, w.stderr.String(), server.Secret())
}
