package deploy

import (
	"path/filepath"
	"regexp"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	autoscalingv2 "k8s.io/api/autoscaling/v2"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/yaml"
)

// decode reads a manifest as the API server would, but forgives nothing: a field
// that the type does not have is an error.
func decode[T any](t *testing.T, path string) *T {
	t.Helper()
	object := new(T)
	require.NoError(t, yaml.UnmarshalStrict([]byte(read(t, filepath.Join("kubernetes", path))), object))
	return object
}

func deployment(t *testing.T) (*appsv1.Deployment, corev1.Container) {
	t.Helper()
	d := decode[appsv1.Deployment](t, "deployment.yaml")
	require.Len(t, d.Spec.Template.Spec.Containers, 1)
	return d, d.Spec.Template.Spec.Containers[0]
}

// settings are the variables of the manifest that have a value there.
func settings(c corev1.Container) map[string]string {
	values := make(map[string]string)
	for _, variable := range c.Env {
		if variable.ValueFrom == nil {
			values[variable.Name] = variable.Value
		}
	}
	return values
}

func TestEachManifestIsWhatItSays(t *testing.T) {
	d, _ := deployment(t)
	pods := labels.Set(d.Spec.Template.Labels)
	selects := func(s *metav1.LabelSelector) {
		t.Helper()
		selector, err := metav1.LabelSelectorAsSelector(s)
		require.NoError(t, err)
		require.True(t, selector.Matches(pods))
	}
	service := decode[corev1.Service](t, "service.yaml")
	budget := decode[policyv1.PodDisruptionBudget](t, "poddisruptionbudget.yaml")
	network := decode[networkingv1.NetworkPolicy](t, "networkpolicy.yaml")
	secret := decode[corev1.Secret](t, "optional/secret.yaml")
	scaler := decode[autoscalingv2.HorizontalPodAutoscaler](t, "optional/hpa.yaml")
	kinds := map[string]metav1.TypeMeta{
		"apps/v1 Deployment": d.TypeMeta, "v1 Service": service.TypeMeta, "policy/v1 PodDisruptionBudget": budget.TypeMeta,
		"networking.k8s.io/v1 NetworkPolicy": network.TypeMeta, "v1 Secret": secret.TypeMeta,
		"autoscaling/v2 HorizontalPodAutoscaler": scaler.TypeMeta,
	}
	for kind, meta := range kinds {
		require.Equal(t, kind, meta.APIVersion+" "+meta.Kind)
	}
	files, err := filepath.Glob("kubernetes/*.yaml")
	require.NoError(t, err)
	more, err := filepath.Glob("kubernetes/*/*.yaml")
	require.NoError(t, err)
	require.Len(t, append(files, more...), len(kinds), "a manifest that is not tested")

	selects(d.Spec.Selector)
	selects(metav1.SetAsLabelSelector(service.Spec.Selector))
	selects(budget.Spec.Selector)
	selects(&network.Spec.PodSelector)
	require.Equal(t, autoscalingv2.CrossVersionObjectReference{APIVersion: d.APIVersion, Kind: d.Kind, Name: d.Name}, scaler.Spec.ScaleTargetRef)
	require.GreaterOrEqual(t, int(*scaler.Spec.Behavior.ScaleDown.StabilizationWindowSeconds), 300)
}

func TestThePortIsOneEverywhere(t *testing.T) {
	d, c := deployment(t)
	require.Len(t, c.Ports, 1)
	port := c.Ports[0]
	require.Equal(t, settings(c)["WORKER_PORT"], strconv.Itoa(int(port.ContainerPort)))
	require.Equal(t, d.Spec.Template.Annotations["prometheus.io/port"], strconv.Itoa(int(port.ContainerPort)))
	service := decode[corev1.Service](t, "service.yaml")
	require.Equal(t, port.Name, service.Spec.Ports[0].TargetPort.String())
	network := decode[networkingv1.NetworkPolicy](t, "networkpolicy.yaml")
	require.Equal(t, port.Name, network.Spec.Ingress[0].Ports[0].Port.String())
	for _, probe := range []*corev1.Probe{c.StartupProbe, c.LivenessProbe, c.ReadinessProbe} {
		require.Equal(t, port.Name, probe.HTTPGet.Port.String())
	}
	for _, file := range []string{"Dockerfile", "Dockerfile.node"} {
		require.Contains(t, read(t, file), "\nEXPOSE "+strconv.Itoa(int(port.ContainerPort))+"\n")
	}
}

func TestEachVariableOfTheDeploymentIsRead(t *testing.T) {
	_, c := deployment(t)
	secret := decode[corev1.Secret](t, "optional/secret.yaml")
	require.Contains(t, c.Env, corev1.EnvVar{Name: "DEPLOYED_POD_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.name"}}})
	for _, variable := range c.Env {
		requireKnown(t, variable.Name, "deployment.yaml")
		if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
			require.Equal(t, secret.Name, variable.ValueFrom.SecretKeyRef.Name)
			require.Contains(t, secret.StringData, variable.ValueFrom.SecretKeyRef.Key)
		}
	}
	require.Contains(t, settings(c), "WORKER_REPO_DIR")
}

func TestAPodIsNotKilledWhileItDrains(t *testing.T) {
	d, c := deployment(t)
	require.Nil(t, c.Lifecycle, "a preStop hook uses up the time of the drain")
	require.GreaterOrEqual(t, int(*d.Spec.Template.Spec.TerminationGracePeriodSeconds), drainSeconds(t, settings(c))+10)
}

// Of a Service named worker, Kubernetes makes WORKER_PORT=tcp://10.1.2.3:2222 for
// every pod beside it.
func TestAServiceNamedWorkerDoesNoHarm(t *testing.T) {
	d, _ := deployment(t)
	require.NotNil(t, d.Spec.Template.Spec.EnableServiceLinks)
	require.False(t, *d.Spec.Template.Spec.EnableServiceLinks)
}

func TestMemoryIsEnoughForAllSlots(t *testing.T) {
	_, c := deployment(t)
	slots := 0
	for _, group := range regexp.MustCompile(`:(\d+)`).FindAllStringSubmatch(settings(c)["WORKER_WORKLOOPS"], -1) {
		n, err := strconv.Atoi(group[1])
		require.NoError(t, err)
		slots += n
	}
	run, err := strconv.Atoi(settings(c)["WORKER_MAX_RUN_MEMORY_MB"])
	require.NoError(t, err)
	const worker, node, slack = 300, 70, 64 // MB; see docs/security.md for the slack
	need := int64(worker+slots*(run+run/4+slack+node)) * 1_000_000
	require.GreaterOrEqual(t, c.Resources.Limits.Memory().Value(), need, "at its limit, the whole container is killed")
	require.True(t, c.Resources.Limits.Cpu().IsZero())
}

func TestPodsAreConfined(t *testing.T) {
	d, c := deployment(t)
	pod := d.Spec.Template.Spec
	require.True(t, *pod.SecurityContext.RunAsNonRoot)
	require.False(t, *pod.AutomountServiceAccountToken)
	writable := map[string]bool{}
	for _, volume := range pod.Volumes {
		require.NotNil(t, volume.EmptyDir, volume.Name)
		require.NotNil(t, volume.EmptyDir.SizeLimit, volume.Name)
		writable[volume.Name] = true
	}
	for _, c := range append(pod.InitContainers, c) {
		require.True(t, *c.SecurityContext.ReadOnlyRootFilesystem)
		require.False(t, *c.SecurityContext.AllowPrivilegeEscalation)
		require.Equal(t, []corev1.Capability{"ALL"}, c.SecurityContext.Capabilities.Drop)
		for _, mount := range c.VolumeMounts {
			require.True(t, writable[mount.Name])
		}
	}
	require.Equal(t, settings(c)["WORKER_REPO_DIR"], c.VolumeMounts[0].MountPath)
	require.Equal(t, "/tmp", c.VolumeMounts[1].MountPath)
	require.Equal(t, pod.InitContainers[0].Image, c.Image)
	require.Contains(t, pod.InitContainers[0].Command, environmentOf(t, "Dockerfile.node")["WORKER_REPO_DIR"]+"/.")
}
