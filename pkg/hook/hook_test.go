package hook_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster/clustertest"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

const (
	hosted = "clusters-a"
	guest  = "openshift-x"
)

// workloads are fresh manifests, as a controller has them at each sync.
func workloads() (*appsv1.Deployment, *appsv1.DaemonSet) {
	annotations := map[string]string{
		"config.openshift.io/inject-proxy":          "csi-driver",
		"config.openshift.io/inject-proxy-cabundle": "csi-driver",
	}
	template := corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		InitContainers: []corev1.Container{{Name: "csi-driver-nfs"}},
		Containers:     []corev1.Container{{Name: "csi-driver", Env: []corev1.EnvVar{{Name: "A", Value: "a"}}}, {Name: "csi-provisioner"}},
	}}
	return &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: appsv1.DeploymentSpec{Template: *template.DeepCopy()}},
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: appsv1.DaemonSetSpec{Template: *template.DeepCopy()}}
}

// change applies a hook to fresh manifests.
func change(t *testing.T, h hook.Workload, spec *opv1.OperatorSpec) (*appsv1.Deployment, *appsv1.DaemonSet) {
	t.Helper()
	deployment, daemonSet := workloads()
	if err := h.Deployment(spec, deployment); err != nil {
		t.Fatal(err)
	}
	if err := h.DaemonSet(spec, daemonSet); err != nil {
		t.Fatal(err)
	}
	return deployment, daemonSet
}

// hashes are the annotations that a hook adds to Deployment, its pods, DaemonSet and its pods.
func hashes(t *testing.T, h hook.Workload) [4]string {
	t.Helper()
	deployment, daemonSet := change(t, h, &opv1.OperatorSpec{})
	var ret [4]string
	for i, annotations := range []map[string]string{
		deployment.Annotations, deployment.Spec.Template.Annotations, daemonSet.Annotations, daemonSet.Spec.Template.Annotations,
	} {
		for key, value := range annotations {
			if key != "config.openshift.io/inject-proxy" && key != "config.openshift.io/inject-proxy-cabundle" {
				ret[i] += key + "=" + value
			}
		}
	}
	return ret
}

// await polls until the hook's informer has heard of a change, and all annotations tell of it.
func await(t *testing.T, h hook.Workload, old [4]string) [4]string {
	t.Helper()
	var now [4]string
	err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
		now = hashes(t, h)
		for i, value := range now {
			if value == "" || value == old[i] {
				return false, nil
			}
		}
		return true, nil
	})
	if err != nil {
		t.Fatalf("the hashes of Deployment, its pods, DaemonSet and its pods were %q and are %q", old, now)
	}
	return now
}

func TestHashes(t *testing.T) {
	t.Parallel()
	const name = "an-object-whose-name-is-so-long-that-it-fits-into-no-annotation"
	for _, side := range bundle.Sides() {
		f := clustertest.New(t, clustertest.Seed{Flavour: flavour.HyperShift, OperatorNamespace: hosted, DriverNamespace: guest})
		meta := metav1.ObjectMeta{Name: name, Namespace: f.Placement.Namespace(side)}
		kube := f.Side(side).Kube.CoreV1()
		put := func(create bool, value string) (errs [2]error) {
			secret := &corev1.Secret{ObjectMeta: meta, Data: map[string][]byte{"k": []byte(value)}}
			configMap := &corev1.ConfigMap{ObjectMeta: meta, Data: map[string]string{"k": value}}
			if create {
				_, errs[0] = kube.Secrets(meta.Namespace).Create(t.Context(), secret, metav1.CreateOptions{})
				_, errs[1] = kube.ConfigMaps(meta.Namespace).Create(t.Context(), configMap, metav1.CreateOptions{})
			} else {
				_, errs[0] = kube.Secrets(meta.Namespace).Update(t.Context(), secret, metav1.UpdateOptions{})
				_, errs[1] = kube.ConfigMaps(meta.Namespace).Update(t.Context(), configMap, metav1.UpdateOptions{})
			}
			return errs
		}
		hooks := []hook.Workload{hook.SecretHash(f.Cluster, side, name), hook.ConfigMapHash(f.Cluster, side, name)}
		f.Start(t)
		var last [2][4]string
		for i, h := range hooks {
			if last[i] = hashes(t, h); last[i] != [4]string{} {
				t.Errorf("%s: a missing object has the hash %q", side, last[i])
			}
		}
		for i, value := range []string{"first", "second"} {
			if errs := put(i == 0, value); errs != [2]error{} {
				t.Fatal(errs)
			}
			for i, h := range hooks {
				last[i] = await(t, h, last[i])
			}
		}
	}
}

func TestTrustedCABundle(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name    string
		data    map[string]string
		mounted bool
	}{
		{"no ConfigMap", nil, false},
		{"not injected yet", map[string]string{"other": "x"}, false},
		{"injected", map[string]string{"ca-bundle.crt": "PEM"}, true},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			var objects []runtime.Object
			if test.data != nil {
				objects = append(objects, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: guest, Name: "trusted"}, Data: test.data})
			}
			f := clustertest.New(t, clustertest.Seed{DriverNamespace: guest, Guest: objects})
			h := hook.TrustedCABundle(f.Cluster, bundle.Guest, "trusted")
			f.Start(t)
			deployment, daemonSet := change(t, h, &opv1.OperatorSpec{})
			for _, pod := range []corev1.PodSpec{deployment.Spec.Template.Spec, daemonSet.Spec.Template.Spec} {
				want := []int{0, 0, 0} // of the init container, the driver, the sidecar
				if test.mounted {
					want[1] = 1
				}
				got := []int{len(pod.InitContainers[0].VolumeMounts), len(pod.Containers[0].VolumeMounts), len(pod.Containers[1].VolumeMounts)}
				if diff := cmp.Diff(want, got); diff != "" || len(pod.Volumes) != want[1] {
					t.Errorf("%d volumes; mounts (-want +got):\n%s", len(pod.Volumes), diff)
				}
			}
			if hashed := hashes(t, h) != [4]string{}; hashed != test.mounted {
				t.Errorf("hashed: %t, mounted: %t", hashed, test.mounted)
			}
		})
	}
}

func TestObservedProxy(t *testing.T) {
	t.Parallel()
	observed := `{"targetcsiconfig": {"proxy": {"HTTPS_PROXY": "http://p:1", "NO_PROXY": ".svc"}}}`
	own := corev1.EnvVar{Name: "A", Value: "a"}
	for _, test := range []struct {
		name, observed string
		want           []corev1.EnvVar
	}{
		{"none observed", "", []corev1.EnvVar{own}},
		{"no proxy", `{"targetcsiconfig": {}}`, []corev1.EnvVar{own}},
		{"proxy", observed, []corev1.EnvVar{own, {Name: "HTTPS_PROXY", Value: "http://p:1"}, {Name: "NO_PROXY", Value: ".svc"}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			spec := &opv1.OperatorSpec{ObservedConfig: runtime.RawExtension{Raw: []byte(test.observed)}}
			for range 3 { // map iteration must not change the order, which would roll the pods out
				deployment, daemonSet := change(t, hook.ObservedProxy(), spec)
				for _, pod := range []corev1.PodSpec{deployment.Spec.Template.Spec, daemonSet.Spec.Template.Spec} {
					if diff := cmp.Diff(test.want, pod.Containers[0].Env); diff != "" {
						t.Errorf("environment of the driver (-want +got):\n%s", diff)
					}
					if pod.Containers[1].Env != nil || pod.InitContainers[0].Env != nil {
						t.Error("containers that the annotation does not name get the proxy")
					}
				}
			}
		})
	}
}

func TestTopology(t *testing.T) {
	t.Parallel()
	for topology, want := range map[configv1.TopologyMode]int32{
		configv1.HighlyAvailableTopologyMode: 2, configv1.SingleReplicaTopologyMode: 1, configv1.ExternalTopologyMode: 1,
	} {
		infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
		infrastructure.Status.ControlPlaneTopology = topology
		f := clustertest.New(t, clustertest.Seed{Config: []runtime.Object{infrastructure}})
		h := hook.Topology(f.Cluster)
		f.Start(t)
		deployment, _ := workloads()
		if err := h.Deployment(&opv1.OperatorSpec{}, deployment); err != nil {
			t.Fatal(err)
		}
		if h.DaemonSet != nil || *deployment.Spec.Replicas != want {
			t.Errorf("%s: %d replicas, want %d", topology, *deployment.Spec.Replicas, want)
		}
	}
}

func TestFSGroupPolicy(t *testing.T) {
	t.Parallel()
	for policy, want := range map[storagev1.FSGroupPolicy]storagev1.FSGroupPolicy{
		"":                          storagev1.NoneFSGroupPolicy,
		storagev1.FileFSGroupPolicy: storagev1.FileFSGroupPolicy,
		storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy: storagev1.ReadWriteOnceWithFSTypeFSGroupPolicy,
	} {
		driver := &storagev1.CSIDriver{Spec: storagev1.CSIDriverSpec{FSGroupPolicy: ptr.To(storagev1.NoneFSGroupPolicy)}}
		if err := hook.FSGroupPolicy(policy)(driver); err != nil || *driver.Spec.FSGroupPolicy != want {
			t.Errorf("%q makes %s, %v; want %s", policy, *driver.Spec.FSGroupPolicy, err, want)
		}
	}
}

func TestSplitting(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{DriverNamespace: guest})
	hooks := []hook.Workload{
		hook.ConfigMapHash(f.Cluster, bundle.Guest, "a"),
		hook.ConfigMapHash(f.Cluster, bundle.Controller, "b"),
		hook.TrustedCABundle(f.Cluster, bundle.Guest, "a"),
		hook.SecretHash(f.Cluster, bundle.Guest, "a"),
		hook.Topology(f.Cluster),
		hook.ObservedProxy(),
		{},
	}
	deployment, informers := hook.DeploymentHooks(hooks)
	if len(deployment) != 6 || len(informers) != 4 {
		t.Errorf("%d changes of Deployments and %d informers, want 6 and 4: two ConfigMaps, a Secret, Infrastructures", len(deployment), len(informers))
	}
	daemonSet, informers := hook.DaemonSetHooks(hooks)
	if len(daemonSet) != 5 || len(informers) != 4 {
		t.Errorf("%d changes of DaemonSets and %d informers, want 5 and 4", len(daemonSet), len(informers))
	}
}
