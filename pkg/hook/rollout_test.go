package hook_test

import (
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const (
	dependency = "operator.openshift.io/dep-"
	// plainHash is a hash of an earlier release.
	plainHash = "5g44eg=="
)

// roller applies RollOutDeployment and RollOutDaemonSet to workloads in a fake cluster.
type roller struct {
	*clustertest.Fake
	key        hook.Key
	recorder   events.InMemoryRecorder
	deployment cluster.Object[appsv1.Deployment]
	daemonSet  cluster.Object[appsv1.DaemonSet]
	hooks      [2]hook.Workload
	heard      int
}

// newRoller returns a roller of two workloads: the Deployment has the inputs of the control plane
// side, the DaemonSet the inputs of the guest side.
func newRoller(t *testing.T, seed clustertest.Seed,
	inputs func(*clustertest.Fake, flavour.Side) []hook.Workload,
) *roller {
	t.Helper()
	seed.OperatorNamespace, seed.DriverNamespace = hosted, guest
	r := &roller{Fake: clustertest.New(t, seed)}
	r.key.Set([]byte(strings.Repeat("k", hook.KeySize)))
	r.restart(inputs)
	r.Start(t)
	return r
}

// restart resets the state of the hooks like a new process.
func (r *roller) restart(inputs func(*clustertest.Fake, flavour.Side) []hook.Workload) {
	r.heard, r.recorder = 0, events.NewInMemoryRecorder("test",
		clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	r.deployment = r.Deployment(flavour.ControlPlane, r.Namespaces.ControlPlane, "driver")
	r.daemonSet = r.DaemonSet(flavour.Guest, guest, "driver")
	r.hooks = [2]hook.Workload{
		hook.RollOutDeployment(&r.key, r.deployment.Get, r.recorder,
			inputs(r.Fake, flavour.ControlPlane)),
		hook.RollOutDaemonSet(&r.key, r.daemonSet.Get, r.recorder, inputs(r.Fake, flavour.Guest)),
	}
}

// rolled contains the annotations after the hooks.
type rolled struct {
	own, pods [2]map[string]string
	spec      [2]corev1.PodSpec
}

func (r rolled) list() string { return r.own[0][diagnosis.InputsAnnotation] }

// sync applies the hooks to new manifests.
func (r *roller) sync(t *testing.T) (*appsv1.Deployment, *appsv1.DaemonSet, rolled) {
	t.Helper()
	deployment, daemonSet := workloads()
	deployment.Namespace = r.Namespaces.ControlPlane
	assert.NilError(t, r.hooks[0].Deployment(nil, deployment))
	assert.NilError(t, r.hooks[1].DaemonSet(nil, daemonSet))
	result := rolled{
		own: [2]map[string]string{deployment.Annotations, daemonSet.Annotations},
		pods: [2]map[string]string{
			deployment.Spec.Template.Annotations, daemonSet.Spec.Template.Annotations,
		},
		spec: [2]corev1.PodSpec{deployment.Spec.Template.Spec, daemonSet.Spec.Template.Spec},
	}
	for i, pods := range result.pods {
		for key, hash := range pods {
			assert.Check(t, strings.HasPrefix(key, dependency) && result.own[i][key] == hash,
				"the pods have %s=%s, their workload has %q", key, hash, result.own[i][key])
		}
	}
	return deployment, daemonSet, result
}

// deploy syncs until the result is as wanted, writes it into the cluster, and waits for the cache.
func (r *roller) deploy(t *testing.T, wanted func(rolled) bool) rolled {
	t.Helper()
	var result rolled
	var deployment *appsv1.Deployment
	var daemonSet *appsv1.DaemonSet
	clustertest.Eventually(t, func() bool {
		deployment, daemonSet, result = r.sync(t)
		return wanted(result)
	}, "the wanted result")
	r.sync(t) // further syncs with an old cache emit no events
	clustertest.Put(t, r.ControlPlane, deployment)
	clustertest.Put(t, r.Guest, daemonSet)
	clustertest.Eventually(t, func() bool {
		a, b := r.deployment.Get(), r.daemonSet.Get()
		return a != nil && maps.Equal(a.Annotations, deployment.Annotations) &&
			b != nil && maps.Equal(b.Annotations, daemonSet.Annotations)
	}, "the cache of the workloads")
	return result
}

// emitted returns the events since the last call.
func (r *roller) emitted() []string {
	var told []string
	all := r.recorder.Events()
	for _, event := range all[r.heard:] {
		told = append(told, event.Reason+": "+event.Message)
	}
	r.heard = len(all)
	slices.Sort(told)
	return told
}

// credentials are inputs of both workloads.
func credentials(f *clustertest.Fake, side flavour.Side) []hook.Workload {
	return []hook.Workload{
		hook.SecretHash(f.Cluster, side, "credentials"),
		hook.ConfigMapHash(f.Cluster, side, "conf"), hook.ObservedProxy(),
	}
}

func secret(namespace, value string) *corev1.Secret {
	return &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "credentials"},
		Data:       map[string][]byte{"k": []byte(value)},
	}
}

func conf(namespace string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "conf"},
		Data:       map[string]string{"a": "b"},
	}
}

// Inputs are absent, created, changed, deleted, and created again with the same and with other
// content. A deleted input changes neither workload nor pods, because new pods could not start; an
// event names it.
func TestChangedInputsRollOut(t *testing.T) {
	t.Parallel()
	r := newRoller(t, clustertest.Seed{Flavour: flavour.HyperShift}, credentials)
	first := r.deploy(t, func(rolled) bool { return true })
	assert.Check(t, is.Equal(first.list(), "configmap/conf=absent,secret/credentials=absent"))
	assert.Check(t, is.Len(first.pods[0], 0))
	clustertest.Put(t, r.ControlPlane, secret(hosted, "1"))
	second := r.deploy(t, func(now rolled) bool { return len(now.pods[0]) == 1 })
	clustertest.Put(t, r.ControlPlane, secret(hosted, "2"))
	third := r.deploy(t, func(now rolled) bool { return now.list() != second.list() })
	const rollsOut = "RolloutInputChanged: Deployment clusters-a/driver: rollout triggered: " +
		"secret/credentials "
	assert.Check(t, is.DeepEqual([]string{rollsOut + "changed", rollsOut + "created"}, r.emitted()))

	for range 2 { // the second time in a new process
		clustertest.Delete(t, r.ControlPlane, secret(hosted, ""))
		var gone []string
		clustertest.Eventually(t, func() bool {
			r.sync(t)
			gone = append(gone, r.emitted()...)
			return len(gone) > 0
		}, "an event")
		lost := r.deploy(t, func(rolled) bool { return true })
		assert.Check(t, is.DeepEqual(third, lost, cmp.AllowUnexported(rolled{})),
			"a missing Secret changes the workloads")
		want := "RolloutInputMissing: Secret clusters-a/credentials is missing. " +
			"Deployment clusters-a/driver does not roll out"
		assert.Check(t, len(gone) == 1 && strings.HasPrefix(gone[0], want), "events are %q", gone)
		assert.Check(t, is.Len(r.emitted(), 0))
		clustertest.Put(t, r.ControlPlane, secret(hosted, "2"))
		cached := r.Secret(flavour.ControlPlane, hosted, "credentials")
		clustertest.Eventually(t, func() bool { return cached.Get() != nil }, "the cache of the Secret")
		back := r.deploy(t, func(rolled) bool { return true })
		assert.Check(t, is.DeepEqual(third, back, cmp.AllowUnexported(rolled{})),
			"a Secret that is back as it was changes the workloads")
		assert.Check(t, is.Len(r.emitted(), 0))
		r.restart(credentials)
	}

	clustertest.Put(t, r.ControlPlane, secret(hosted, "3"))
	r.deploy(t, func(now rolled) bool { return now.list() != third.list() })
	assert.Check(t, is.DeepEqual([]string{rollsOut + "changed"}, r.emitted()),
		"events of a new process")
}

// Both clusters contain inputs of the same names and content.
func TestSidesHaveSeparateInputs(t *testing.T) {
	t.Parallel()
	r := newRoller(t, clustertest.Seed{
		Flavour: flavour.HyperShift, Guest: []runtime.Object{secret(guest, "1"), conf(guest)},
		ControlPlane: []runtime.Object{secret(hosted, "1"), conf(hosted)},
	}, credentials)
	_, _, both := r.sync(t)
	assert.Check(t, both.list() != both.own[1][diagnosis.InputsAnnotation], both.list())
	assert.Check(t, len(both.pods[0]) == 2 && len(both.pods[1]) == 2, "an input is of another cluster")
	clustertest.Put(t, r.Guest, secret(guest, "2"))
	clustertest.Eventually(t, func() bool {
		_, _, now := r.sync(t)
		assert.Assert(t, is.DeepEqual(both.own[0], now.own[0]),
			"the guest's Secret changes the Deployment")
		return !maps.Equal(both.pods[1], now.pods[1])
	}, "another hash of the guest's Secret")
	assert.Check(t, len(r.emitted()) <= 0, "there is an event about workloads that do not exist yet")
}

// An upgrade replaces hashes that anyone can compute, also in the workload. The content may be the
// same, so no event reports a change.
func TestUpgradeReplacesPlainHashes(t *testing.T) {
	t.Parallel()
	r := newRoller(t, clustertest.Seed{Guest: append(earlierWorkloads(), secret(guest, "1"))},
		credentials)
	_, _, after := r.sync(t)
	for _, annotations := range slices.Concat(after.own[:], after.pods[:]) {
		hash := annotations[annotation]
		assert.Check(t, hash != "" && hash != plainHash, "the hash of the Secret is %q", hash)
	}
	assert.Check(t, !strings.Contains(after.list(), "secret/credentials=5g44eg"), after.list())
	assert.Check(t, is.Len(r.emitted(), 0), "events")
}

func TestLongNamesFitIntoAnnotations(t *testing.T) {
	t.Parallel()
	const name = "an-object-whose-name-is-so-long-that-it-fits-into-no-annotation"
	long := secret(guest, "1")
	long.Name = name
	r := newRoller(t, clustertest.Seed{Guest: []runtime.Object{long}},
		func(f *clustertest.Fake, side flavour.Side) []hook.Workload {
			return []hook.Workload{hook.SecretHash(f.Cluster, side, name)}
		})
	_, _, result := r.sync(t)
	assert.Check(t, is.Len(result.pods[0], 1))
	for key := range result.pods[0] {
		assert.Check(t, is.Len(key, 63))
	}
}

// The bundle stays mounted while its ConfigMap is deleted and created again.
func TestTrustedCABundleIsMountedOnceItExists(t *testing.T) {
	t.Parallel()
	r := newRoller(t, clustertest.Seed{}, func(f *clustertest.Fake, s flavour.Side) []hook.Workload {
		return []hook.Workload{hook.TrustedCABundle(f.Cluster, s, "trusted")}
	})
	mounts := func(now rolled) [2][4]int {
		var counts [2][4]int
		for i, pod := range now.spec {
			counts[i] = [4]int{
				len(pod.Volumes), len(pod.InitContainers[0].VolumeMounts),
				len(pod.Containers[0].VolumeMounts), len(pod.Containers[1].VolumeMounts),
			}
		}
		return counts
	}
	// write changes the data in the cluster and in the cache, nil deletes the ConfigMap.
	write := func(data map[string]string) {
		t.Helper()
		trusted := &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: guest, Name: "trusted"}, Data: data,
		}
		clustertest.Put(t, r.Guest, trusted)
		if data == nil {
			clustertest.Delete(t, r.Guest, trusted)
		}
		cached := r.ConfigMap(flavour.Guest, guest, "trusted")
		clustertest.Eventually(t, func() bool {
			found := cached.Get()
			return data == nil && found == nil || found != nil && maps.Equal(found.Data, data)
		}, "the cache of the ConfigMap")
	}
	// the driver, not its init container, not its sidecar
	never, once := [2][4]int{}, [2][4]int{{1, 0, 1, 0}, {1, 0, 1, 0}}
	for _, data := range []map[string]string{nil, {"other": "x"}} {
		write(data)
		now := r.deploy(t, func(rolled) bool { return true })
		assert.Check(t, is.Equal(mounts(now), never), "mounts with %v", data)
		assert.Check(t, is.Len(now.pods[0], 0))
	}
	bundle := map[string]string{"ca-bundle.crt": "PEM"}
	write(bundle)
	mounted := r.deploy(t, func(rolled) bool { return true })
	assert.Check(t, is.Equal(mounts(mounted), once), "mounts")
	assert.Check(t, is.Len(mounted.pods[0], 1), "annotations")
	for _, data := range []map[string]string{nil, {}, bundle} {
		write(data)
		now := r.deploy(t, func(rolled) bool { return true })
		assert.Check(t, is.DeepEqual(mounted, now, cmp.AllowUnexported(rolled{})),
			"with %v the workloads change", data)
	}
}
