package assets_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	snapshotv1 "github.com/kubernetes-csi/external-snapshotter/client/v8/apis/volumesnapshot/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/openstack-csi/csi-operator/assets/drivers/cinder"
	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// eachCinder runs a test for Cinder's bundle of every flavour.
func eachCinder(t *testing.T, test func(t *testing.T, f flavour.Flavour, b *bundle.Bundle)) {
	t.Helper()
	for _, f := range flavour.All() {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			loaded, err := bundle.Load(cinder.Assets(), f)
			if err != nil {
				t.Fatal(err)
			}
			test(t, f, loaded)
		})
	}
}

// read decodes an asset into the type of its kind.
func read[T runtime.Object](t *testing.T, b *bundle.Bundle, name string) T {
	t.Helper()
	object, ok := decode(t, textOf(t, b, name)).(T)
	if !ok {
		t.Fatalf("%s is a %T, want %T", name, object, *new(T))
	}
	return object
}

// Documents, dashboards and the files of the pods rely on these flags, ports and paths. Flags that
// are the same for all drivers, such as leader election, are not listed.
func TestCinderContainersHaveTheirArguments(t *testing.T) {
	t.Parallel()
	driver := []string{
		"--endpoint=$(CSI_ENDPOINT)", "--cloud-config=$(CLOUD_CONFIG)",
		"--with-topology=$(ENABLE_TOPOLOGY)",
	}
	const socket = "--csi-address=/var/lib/csi/sockets/pluginproxy/csi.sock"
	tests := map[string]map[string][]string{
		"controller.yaml": {
			"csi-driver": append(slices.Clone(driver), "--provide-controller-service=true",
				"--provide-node-service=false",
				"--http-endpoint=localhost:8202", "--cluster=${CLUSTER_ID}"),
			"kube-rbac-proxy-8202": {
				"--secure-listen-address=0.0.0.0:9202",
				"--upstream=http://127.0.0.1:8202/",
			},
			"csi-provisioner": {
				socket, "--http-endpoint=localhost:8203", "--timeout=3m",
				"--default-fstype=ext4",
			},
			"provisioner-kube-rbac-proxy": {
				"--secure-listen-address=0.0.0.0:9203",
				"--upstream=http://127.0.0.1:8203/",
			},
			"csi-attacher": {socket, "--http-endpoint=localhost:8204", "--timeout=3m"},
			"attacher-kube-rbac-proxy": {
				"--secure-listen-address=0.0.0.0:9204",
				"--upstream=http://127.0.0.1:8204/",
			},
			"csi-resizer": {socket, "--http-endpoint=localhost:8205"},
			"resizer-kube-rbac-proxy": {
				"--secure-listen-address=0.0.0.0:9205",
				"--upstream=http://127.0.0.1:8205/",
			},
			"csi-snapshotter": {socket, "--metrics-address=localhost:8206"},
			"snapshotter-kube-rbac-proxy": {
				"--secure-listen-address=0.0.0.0:9206",
				"--upstream=http://127.0.0.1:8206/",
			},
			"csi-liveness-probe": {
				"--csi-address=/csi/csi.sock", "--health-port=10301",
				"--probe-timeout=10s",
			},
		},
		"node.yaml": {
			"csi-driver": append(slices.Clone(driver), "--provide-controller-service=false",
				"--provide-node-service=true"),
			"csi-liveness-probe": {
				"--csi-address=/csi/csi.sock", "--http-endpoint=127.0.0.1:10300",
				"--probe-timeout=10s",
			},
			"csi-node-driver-registrar": {
				"--http-endpoint=127.0.0.1:10304",
				"--kubelet-registration-path=/var/lib/kubelet/plugins/cinder.csi.openstack.org/csi.sock",
			},
		},
	}
	eachCinder(t, func(t *testing.T, f flavour.Flavour, b *bundle.Bundle) {
		for file, all := range tests {
			containers := maps.Clone(all)
			maps.DeleteFunc(containers, func(name string, _ []string) bool {
				return f == flavour.HyperShift && strings.Contains(name, "kube-rbac-proxy")
			})
			_, pod := workload(t, b, file)
			var names []string
			for _, container := range pod.Containers {
				names = append(names, container.Name)
				for _, arg := range containers[container.Name] {
					if !slices.Contains(container.Args, arg) {
						t.Errorf("%s: %s lacks %s: %q", file, container.Name, arg, container.Args)
					}
				}
			}
			slices.Sort(names)
			if diff := cmp.Diff(slices.Sorted(maps.Keys(containers)), names); diff != "" ||
				len(pod.InitContainers) != 0 {
				t.Errorf("%s: containers (-want +got):\n%s", file, diff)
			}
			if program := pod.Containers[0].Args[0]; program != "/bin/cinder-csi-plugin" {
				t.Errorf("%s: the program is %s", file, program)
			}
		}
	})
}

// The driver reads the files that the operator and the cloud credential operator write.
func TestCinderPodsMountTheConfiguration(t *testing.T) {
	t.Parallel()
	env := []corev1.EnvVar{
		{Name: "CSI_ENDPOINT", Value: "unix://csi/csi.sock"},
		{Name: "CLOUD_CONFIG", Value: "/etc/kubernetes/config/cloud.conf"},
		{Name: "ENABLE_TOPOLOGY", ValueFrom: &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "cloud-conf"}, Key: "enable_topology",
			},
		}},
	}
	mounts := map[string]string{
		"secret-cinderplugin": "/etc/kubernetes/secret",
		"config-cinderplugin": "/etc/kubernetes/config",
		"cacert":              "/etc/kubernetes/static-pod-resources/configmaps/cloud-config",
	}
	items := func(key string) []corev1.KeyToPath { return []corev1.KeyToPath{{Key: key, Path: key}} }
	cloudConf := corev1.LocalObjectReference{Name: "cloud-conf"}
	// The operator has tested the login of the controller. The plugin on the nodes does not log in.
	logins := map[string]*corev1.SecretVolumeSource{
		"controller.yaml": {
			SecretName: "openstack-cinder-csi-driver-login",
			Items:      []corev1.KeyToPath{{Key: "login", Path: "clouds.yaml"}},
		},
		"node.yaml": {SecretName: "openstack-cloud-credentials", Items: items("clouds.yaml")},
	}
	volumes := map[string]corev1.VolumeSource{
		"config-cinderplugin": {ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: cloudConf, Items: items("cloud.conf"),
		}},
		"cacert": {ConfigMap: &corev1.ConfigMapVolumeSource{
			LocalObjectReference: cloudConf, Items: items("ca-bundle.pem"), Optional: ptr.To(true),
		}},
	}
	eachCinder(t, func(t *testing.T, _ flavour.Flavour, b *bundle.Bundle) {
		for file, login := range logins {
			volumes := maps.Clone(volumes)
			volumes["secret-cinderplugin"] = corev1.VolumeSource{Secret: login}
			_, pod := workload(t, b, file)
			driver := pod.Containers[0]
			if diff := cmp.Diff(env, driver.Env); diff != "" {
				t.Errorf("%s: environment (-want +got):\n%s", file, diff)
			}
			gotMounts, gotVolumes := map[string]string{}, map[string]corev1.VolumeSource{}
			for _, mount := range driver.VolumeMounts {
				if _, wanted := mounts[mount.Name]; wanted {
					gotMounts[mount.Name] = mount.MountPath
				}
			}
			for _, volume := range pod.Volumes {
				if _, wanted := volumes[volume.Name]; wanted {
					gotVolumes[volume.Name] = volume.VolumeSource
				}
			}
			if diff := cmp.Diff(mounts, gotMounts) + cmp.Diff(volumes, gotVolumes); diff != "" {
				t.Errorf("%s (-want +got):\n%s", file, diff)
			}
		}
	})
}

func TestCinderObjectsHaveTheNamesOfExistingClusters(t *testing.T) {
	t.Parallel()
	eachCinder(t, func(t *testing.T, f flavour.Flavour, b *bundle.Bundle) {
		got := map[string]string{}
		for _, asset := range b.Assets() {
			var object metav1.PartialObjectMetadata
			if err := yaml.Unmarshal(asset.Data, &object); err != nil {
				t.Fatal(err)
			}
			if object.Kind != "ClusterRole" && object.Kind != "ClusterRoleBinding" &&
				object.Kind != "Role" && object.Kind != "RoleBinding" {
				got[asset.Name] = fmt.Sprintf("%s %s/%s %s", object.Kind, object.Namespace, object.Name,
					asset.Role)
			}
		}
		want := map[string]string{
			"controller.yaml": "Deployment ${NAMESPACE}/openstack-cinder-csi-driver-controller " +
				"controllerWorkload",
			"controller_sa.yaml": "ServiceAccount " +
				"${NAMESPACE}/openstack-cinder-csi-driver-controller-sa static",
			"controller_pdb.yaml": "PodDisruptionBudget " +
				"${NAMESPACE}/openstack-cinder-csi-driver-controller-pdb static",
			"cabundle_cm.yaml": "ConfigMap " +
				"${NAMESPACE}/openstack-cinder-csi-driver-trusted-ca-bundle static",
			"node.yaml": "DaemonSet ${NODE_NAMESPACE}/openstack-cinder-csi-driver-node " +
				"nodeWorkload",
			"node_sa.yaml": "ServiceAccount " +
				"${NODE_NAMESPACE}/openstack-cinder-csi-driver-node-sa static",
			"csidriver.yaml":           "CSIDriver /cinder.csi.openstack.org csiDriver",
			"storageclass.yaml":        "StorageClass /standard-csi storageClass",
			"volumesnapshotclass.yaml": "VolumeSnapshotClass /standard-csi snapshotClass",
		}
		if f == flavour.Standalone { // in a management cluster the operator may not write ServiceMonitors
			want["service.yaml"] = "Service " +
				"${NAMESPACE}/openstack-cinder-csi-driver-controller-metrics static"
			want["servicemonitor.yaml"] = "ServiceMonitor " +
				"${NAMESPACE}/openstack-cinder-csi-driver-controller-monitor serviceMonitor"
			want["operator_servicemonitor.yaml"] = "ServiceMonitor " +
				"${OPERATOR_NAMESPACE}/openstack-cinder-csi-driver-operator operatorMonitor"
		} else { // the nodes are in the guest cluster, which has its own trusted CAs
			want["node_cabundle_cm.yaml"] = "ConfigMap " +
				"${NODE_NAMESPACE}/openstack-cinder-csi-driver-trusted-ca-bundle static"
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("objects (-want +got):\n%s", diff)
		}
	})
}

func TestCinderServiceExposesTheMetricsPorts(t *testing.T) {
	t.Parallel()
	eachCinder(t, func(t *testing.T, f flavour.Flavour, b *bundle.Bundle) {
		app := map[string]string{"app": "openstack-cinder-csi-driver-controller"}
		budget := read[*policyv1.PodDisruptionBudget](t, b, "controller_pdb.yaml")
		if diff := cmp.Diff(app, budget.Spec.Selector.MatchLabels); diff != "" {
			t.Errorf("budget (-want +got):\n%s", diff)
		}
		if f == flavour.HyperShift {
			return // there is no Service
		}
		service := read[*corev1.Service](t, b, "service.yaml")
		ports := map[string]int32{}
		for _, port := range service.Spec.Ports {
			ports[port.TargetPort.StrVal] = port.Port
		}
		want := map[string]int32{
			"driver-m": 9202, "provisioner-m": 9203, "attacher-m": 9204,
			"resizer-m": 9205, "snapshotter-m": 9206,
		}
		if diff := cmp.Diff(want, ports) + cmp.Diff(app, service.Spec.Selector); diff != "" {
			t.Errorf("service (-want +got):\n%s", diff)
		}
		const secret = "openstack-cinder-csi-driver-controller-metrics-serving-cert"
		got := service.Annotations["service.beta.openshift.io/serving-cert-secret-name"]
		if got != secret {
			t.Errorf("the certificate is in %q, want %q", got, secret)
		}
	})
}

// Every field that the API server would default is set.
func TestCinderClassesAreComplete(t *testing.T) {
	t.Parallel()
	const name = "cinder.csi.openstack.org"
	eachCinder(t, func(t *testing.T, _ flavour.Flavour, b *bundle.Bundle) {
		class := read[*storagev1.StorageClass](t, b, "storageclass.yaml")
		wantClass := &storagev1.StorageClass{
			TypeMeta: class.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{Name: "standard-csi", Annotations: map[string]string{
				"storageclass.kubernetes.io/is-default-class": "true",
			}},
			Provisioner: name, AllowVolumeExpansion: ptr.To(true),
			ReclaimPolicy:     ptr.To(corev1.PersistentVolumeReclaimDelete),
			VolumeBindingMode: ptr.To(storagev1.VolumeBindingWaitForFirstConsumer),
		}
		snapshots := read[*snapshotv1.VolumeSnapshotClass](t, b, "volumesnapshotclass.yaml")
		wantSnapshots := &snapshotv1.VolumeSnapshotClass{
			TypeMeta: snapshots.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{Name: "standard-csi", Annotations: map[string]string{
				"snapshot.storage.kubernetes.io/is-default-class": "true",
			}},
			Driver: name, DeletionPolicy: snapshotv1.VolumeSnapshotContentDelete,
			Parameters: map[string]string{"force-create": "false"},
		}
		driver := read[*storagev1.CSIDriver](t, b, "csidriver.yaml")
		wantDriver := &storagev1.CSIDriver{
			TypeMeta: driver.TypeMeta,
			ObjectMeta: metav1.ObjectMeta{
				Name:        name,
				Annotations: map[string]string{"csi.openshift.io/managed": "true"},
			},
			Spec: storagev1.CSIDriverSpec{
				AttachRequired: ptr.To(true), PodInfoOnMount: ptr.To(true),
				FSGroupPolicy: ptr.To(storagev1.FileFSGroupPolicy),
				SELinuxMount:  ptr.To(true), RequiresRepublish: ptr.To(false), StorageCapacity: ptr.To(false),
				VolumeLifecycleModes: []storagev1.VolumeLifecycleMode{storagev1.VolumeLifecyclePersistent},
			},
		}
		diff := cmp.Diff(wantClass, class) + cmp.Diff(wantSnapshots, snapshots) +
			cmp.Diff(wantDriver, driver)
		if diff != "" {
			t.Errorf("classes (-want +got):\n%s", diff)
		}
	})
}

func TestCinderBindsTheControllerToTheseRoles(t *testing.T) {
	t.Parallel()
	eachCinder(t, func(t *testing.T, f flavour.Flavour, b *bundle.Bundle) {
		var bound []string
		for _, asset := range b.Select(bundle.Static, flavour.Guest) {
			if binding, ok := decode(t, asset.Data).(*rbacv1.ClusterRoleBinding); ok {
				bound = append(bound, binding.Name+" "+binding.RoleRef.Name+" "+binding.Subjects[0].Name)
			}
		}
		const (
			controller = " openstack-cinder-csi-driver-controller-sa"
			node       = " openstack-cinder-csi-driver-node-sa"
		)
		want := []string{
			"openstack-cinder-csi-main-attacher-binding openshift-csi-main-attacher-role" + controller,
			"openstack-cinder-csi-main-provisioner-binding openshift-csi-main-provisioner-role" + controller,
			"openstack-cinder-csi-main-resizer-binding openshift-csi-main-resizer-role" + controller,
			"openstack-cinder-csi-snapshotter-binding openstack-cinder-csi-snapshotter-role" + controller,
			"openstack-cinder-csi-storageclass-reader-resizer-binding " +
				"openshift-csi-resizer-storageclass-reader-role" + controller,
			"openstack-cinder-csi-volumesnapshot-reader-provisioner-binding " +
				"openshift-csi-provisioner-volumesnapshot-reader-role" + controller,
			"openstack-cinder-kube-rbac-proxy-binding openstack-cinder-kube-rbac-proxy-role" + controller,
			"openstack-cinder-node-privileged-binding openstack-cinder-privileged-role" + node,
		}
		if f == flavour.HyperShift { // there are no proxies
			want = slices.DeleteFunc(want, func(line string) bool {
				return strings.Contains(line, "kube-rbac-proxy")
			})
		}
		slices.Sort(bound)
		if diff := cmp.Diff(want, bound); diff != "" {
			t.Errorf("bindings (-want +got):\n%s", diff)
		}
	})
}
