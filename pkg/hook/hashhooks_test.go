package hook_test

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const annotation = dependency + guest + ".credentials.secret"

// acceptedHash is an input whose pods keep their host name with the hash.
func acceptedHash(content *map[string][]byte) hook.Workload {
	return hook.AcceptedHash("credentials", func() any {
		if *content == nil {
			return nil
		}
		return *content
	}, func(pod, deployed *corev1.PodSpec) { pod.Hostname = deployed.Hostname })
}

// The content is nil before the first test, also in a new process, and while it is not accepted.
func TestContentRollsOutWhenItIsAccepted(t *testing.T) {
	t.Parallel()
	var content map[string][]byte
	accept := func(value string) { content = map[string][]byte{"k": []byte(value)} }
	inputs := func(f *clustertest.Fake, side flavour.Side) []hook.Workload {
		return []hook.Workload{acceptedHash(&content), hook.ConfigMapHash(f.Cluster, side, "conf")}
	}
	r := newRoller(t, clustertest.Seed{}, inputs)
	first := r.deploy(t, func(rolled) bool { return true })
	assert.Check(t, is.Equal(first.list(), "configmap/conf=absent,secret/credentials=absent"))
	accept("1")
	created := r.deploy(t, func(rolled) bool { return true })
	const rollsOut = "driver: rollout triggered: secret/credentials "
	expect := func(what string) {
		t.Helper()
		want := []string{
			"RolloutInputChanged: DaemonSet openshift-x/" + rollsOut + what,
			"RolloutInputChanged: Deployment openshift-x/" + rollsOut + what,
		}
		assert.Check(t, is.DeepEqual(want, r.emitted()), "events")
	}
	expect("created")

	content = nil
	r.restart(inputs)
	kept := r.deploy(t, func(rolled) bool { return true })
	assert.Check(t, is.DeepEqual(created, kept, cmp.AllowUnexported(rolled{})), "without content")
	assert.Check(t, is.Len(r.emitted(), 0))
	accept("2")
	changed := r.deploy(t, func(rolled) bool { return true })
	for i, pods := range changed.pods {
		assert.Check(t, pods[annotation] != "" && pods[annotation] != created.pods[i][annotation])
	}
	expect("changed")
	content = nil
	clustertest.Put(t, r.Guest, conf(guest))
	other := r.deploy(t, func(now rolled) bool { return len(now.pods[0]) == 2 })
	assert.Check(t, other.pods[0][annotation] == changed.pods[0][annotation],
		"another input changes the hash")
}

// earlierWorkloads returns workloads of an earlier release, whose pods have a hash and a host name.
func earlierWorkloads() []runtime.Object {
	deployment, daemonSet := workloads()
	own := map[string]string{
		annotation: plainHash, diagnosis.InputsAnnotation: "secret/credentials=5g44eg",
	}
	deployment.Annotations, daemonSet.Annotations = own, own
	pods := &deployment.Spec.Template
	pods.Annotations = map[string]string{annotation: plainHash, "deployment.kubernetes.io/re": "1"}
	pods.Spec.Hostname = "deployed"
	daemonSet.Spec.Template = *pods
	return []runtime.Object{deployment, daemonSet}
}

func TestPodsKeepWhatBelongsToTheirHash(t *testing.T) {
	t.Parallel()
	var content map[string][]byte
	r := newRoller(t, clustertest.Seed{Guest: earlierWorkloads()},
		func(*clustertest.Fake, flavour.Side) []hook.Workload {
			return []hook.Workload{acceptedHash(&content)}
		})
	_, _, kept := r.sync(t)
	content = map[string][]byte{"k": []byte("1")}
	_, _, accepted := r.sync(t)
	for i := range kept.spec {
		assert.Check(t, is.Equal(kept.spec[i].Hostname, "deployed"))
		assert.Check(t, is.Equal(accepted.spec[i].Hostname, ""), "with accepted content")
		assert.Check(t, is.DeepEqual(map[string]string{annotation: plainHash}, kept.pods[i]))
		assert.Check(t, !maps.Equal(kept.pods[i], accepted.pods[i]))
	}
	assert.Check(t, is.Equal(kept.list(), "secret/credentials=5g44eg"))
	assert.Check(t, is.Len(r.emitted(), 0))
}

// An upgrade restarts no pods for an object that they do not depend on any more.
func TestPodsKeepHashesOfEarlierReleases(t *testing.T) {
	t.Parallel()
	r := newRoller(t, clustertest.Seed{Guest: append(earlierWorkloads(), secret(guest, "1"))},
		func(*clustertest.Fake, flavour.Side) []hook.Workload { return nil })
	wanted, daemonSet := workloads()
	deployment := wanted.DeepCopy()
	assert.NilError(t, r.hooks[0].Deployment(nil, deployment))
	assert.NilError(t, r.hooks[1].DaemonSet(nil, daemonSet))
	wanted.Spec.Template.Annotations = map[string]string{annotation: plainHash}
	wanted.Annotations[diagnosis.InputsAnnotation] = ""
	assert.Check(t, is.DeepEqual(wanted, deployment), "Deployment")
	assert.Check(t, is.DeepEqual(wanted.Spec.Template, daemonSet.Spec.Template),
		"pods of the DaemonSet")
	assert.Check(t, is.Len(r.emitted(), 0), "events")
}

// Only OpenShift creates the Secret.
func TestMissingCertificateIsRemovedFromThePods(t *testing.T) {
	t.Parallel()
	certificate := corev1.VolumeMount{Name: "cert", MountPath: "/etc/tls/private"}
	socket := corev1.VolumeMount{Name: "socket", MountPath: "/csi"}
	volume := func(name, secret string) corev1.Volume {
		return corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			Secret: &corev1.SecretVolumeSource{SecretName: secret, Optional: new(true)},
		}}
	}
	given, _ := workloads()
	given.Spec.Template.Spec = corev1.PodSpec{
		Volumes: []corev1.Volume{volume("cert", "serving-cert"), volume("socket", "another")},
		Containers: []corev1.Container{
			{Name: "proxy", VolumeMounts: []corev1.VolumeMount{certificate}, Args: []string{
				"--upstream=http://127.0.0.1:8203/", "--tls-cert-file=/etc/tls/private/tls.crt",
				"--tls-private-key-file=/etc/tls/private/tls.key", "--tls-min-version=VersionTLS12",
			}},
			{Name: "driver", VolumeMounts: []corev1.VolumeMount{socket}, Args: []string{
				"--tls-cert-file=of-another",
			}},
		},
	}
	without := given.DeepCopy()
	pod := &without.Spec.Template.Spec
	pod.Volumes = pod.Volumes[1:]
	pod.Containers[0].VolumeMounts = []corev1.VolumeMount{}
	pod.Containers[0].Args = []string{
		"--upstream=http://127.0.0.1:8203/", "--tls-min-version=VersionTLS12",
	}
	existing := secret(guest, "a")
	existing.Name = "serving-cert"
	deployed := given.DeepCopy()
	deployed.Spec.Template.Annotations = map[string]string{
		dependency + guest + ".serving-cert.secret": plainHash,
	}
	for name, test := range map[string]struct {
		inCluster []runtime.Object
		want      *appsv1.Deployment
	}{
		"missing": {nil, without}, "exists": {[]runtime.Object{existing}, given},
		"deleted": {[]runtime.Object{deployed}, given},
	} {
		r := newRoller(t, clustertest.Seed{Guest: test.inCluster},
			func(f *clustertest.Fake, side flavour.Side) []hook.Workload {
				return []hook.Workload{hook.Certificate(f.Cluster, side, "serving-cert")}
			})
		got := applied(t, r.hooks[0], given)
		assert.Check(t, is.DeepEqual(test.want.Spec.Template.Spec, got.Spec.Template.Spec), name)
	}
}
