package kubectl

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/charts"
	"github.com/openstack-csi/csi-operator/pkg/choice"
)

func (s *session) addTo(ctx context.Context, v *charts.Values, n *neighbour) error {
	release, err := s.releaseOf(ctx, v, n)
	if err != nil {
		return err
	}
	ca := ""
	if release != nil {
		err = v.AddChart(n.kind, release.Values(), release.Chart.Values)
		s.addEdits(v, n, release)
		if id := n.clusterID(); id != "" { // new volumes have this one
			v.Set(n.kind, strings.ToLower(n.title)+".spec.clusterID", id, n.title)
		}
	} else {
		err = v.AddChart(n.kind, n.values(), nil)
		n.addPods(v)
		ca = n.addRest(v)
	}
	if err != nil {
		return err
	}
	v.AddCSIDriver(n.kind, n.registered.Spec)
	_, used := s.volumesOf(ctx, func(name string) bool { return name == n.served })
	for _, volumes := range used {
		if strings.HasPrefix(volumes, inlineVolumes) { // Unimplemented since v1.31
			v.Remark(n.title, "The driver refuses %s: they stay mounted, but do not start again. Give the "+
				"pods ephemeral.volumeClaimTemplate instead", volumes)
		}
	}
	if n.zoned > 0 { // without topology no pod could use these
		v.Set(n.kind, strings.ToLower(n.title)+".spec.topology", choice.Enabled, "")
	}
	marks := n.workloads[0].GetAnnotations()
	name := marks[releaseName]
	isOther := func(c storagev1.StorageClass) bool {
		return name == "" || c.Annotations[releaseName] != name
	}
	v.AddClasses(n.kind, slices.DeleteFunc(slices.Clone(n.classes), isOther))
	if n.kind == choice.Manila && len(n.secrets) > 0 {
		v.Set(n.kind, "manila.secrets", n.secrets, "")
		v.Remark("Secrets "+strings.Join(n.secrets, ", "), "Volumes, snapshots or classes name them: "+
			"keep them as long as these exist. With manila.secrets, the controller may read them.")
	}
	if name != "" {
		v.Remark(n.title, "Do not uninstall Helm release %s: docs/from-charts.md says how to replace it "+
			"while pods use volumes", name)
	}
	for _, text := range s.doubleDefault(ctx, n.driver) {
		v.Remark(n.title, "%s.", text)
	}
	n.addOwners(v)
	return s.addLogin(ctx, v, n, ca)
}

// Annotations of the objects of a Helm release.
const releaseName, releaseNamespace = "meta.helm.sh/release-name", "meta.helm.sh/release-namespace"

// releaseOf returns the record of the Helm release of an installation, nil if there is none.
func (s *session) releaseOf(
	ctx context.Context, v *charts.Values, n *neighbour,
) (*charts.Release, error) {
	marks := n.workloads[0].GetAnnotations()
	name, namespace := marks[releaseName], marks[releaseNamespace]
	if name == "" {
		return nil, nil
	}
	all, err := s.releasesOf(ctx, namespace, name)
	if err != nil || len(all) == 0 || all[0].Info.Status != "deployed" {
		return nil, err
	}
	if len(all) > 1 {
		v.Remark(n.title, "The values are those of revision %d of Helm release %s, the last that was "+
			"deployed; a later operation has not ended well", all[0].Version, name)
	}
	return all[0], nil
}

// addEdits names objects that differ from the manifest of their release.
func (s *session) addEdits(v *charts.Values, n *neighbour, release *charts.Release) {
	compare := func(kind string, o client.Object, edits []string) {
		fields, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(o) // typed: cannot fail
		at := release.Edited(kind, o.GetName(), fields["spec"])
		for _, edit := range edits { // what the release does not contain is only there
			if !slices.ContainsFunc(at, func(path string) bool { return strings.HasPrefix(path, edit) }) {
				at = append(at, edit)
			}
		}
		slices.Sort(at)
		if len(at) > 0 {
			v.Remark(kind+" "+o.GetName(), "It differs from the release at %s: what was edited is "+
				"not in the values, except the cluster ID", strings.Join(at, ", "))
		}
	}
	compare("CSIDriver", n.registered, nil)
	for _, w := range n.workloads {
		kind, _, _ := strings.Cut(w.name, " ")
		compare(kind, w.Object, w.edits())
	}
}

// values returns what the flags of an installation without a release say, as values of its chart.
func (n *neighbour) values() map[string]any {
	topology, names := "csi.provisioner.topology", map[string]string{
		"cluster": "clusterID", "pvc-annotations": "pvcAnnotations", "timeout": "timeout",
		"v": "logVerbosityLevel",
	}
	for flag := range strings.FieldsSeq("default-fstype kube-api-burst kube-api-qps worker-threads") {
		names[flag] = "csi.provisioner.extraArgs." + flag
	}
	if n.kind == choice.Manila {
		topology, names = "csimanila.topologyAwarenessEnabled", map[string]string{
			"cluster-id": "csimanila.clusterID", "pvc-annotations": "csimanila.pvcAnnotations",
			"v":                     "logVerbosityLevel",
			"extra-create-metadata": "controllerplugin.provisioner.extraCreateMetadata",
		}
	}
	values := map[string]any{}
	for flag, name := range names {
		for _, value := range n.arguments(flag) {
			if value != "ext4" { // ours, too
				_ = unstructured.SetNestedField(values, boolean(value), strings.Split(name, ".")...)
			}
		}
	}
	_ = unstructured.SetNestedField(values, n.hasTopology(), strings.Split(topology, ".")...)
	return values
}

// hasTopology returns whether new volumes have zones: if the plugin reports the capability, and its
// csi-provisioner uses it.
func (n *neighbour) hasTopology() bool {
	flags, gates := n.arguments("with-topology"), strings.Join(n.arguments("feature-gates"), ",")
	switch _, gate, found := strings.Cut(gates, "Topology="); {
	case slices.Contains(flags, "false") || len(flags) == 0 && n.kind != choice.Cinder:
		return false
	case found:
		return strings.HasPrefix(gate, "true")
	}
	const always = 5 // the first version that needs no gate
	for _, w := range n.workloads {
		for _, c := range w.pod.Containers {
			if v := versionIn(c.Image, "csi-provisioner"); v.Major() > 0 {
				return v.Major() >= always
			}
		}
	}
	return n.volumes == 0 || n.zoned > 0 // the version is not known
}

func boolean(text string) any {
	if text == "true" || text == "false" {
		return text == "true"
	}
	return text
}

// addPods adds the options of the pods of an installation without a release.
func (n *neighbour) addPods(v *charts.Values) {
	prefix := strings.ToLower(n.title) + ".spec.pods."
	for _, w := range n.workloads {
		at := prefix + "controller."
		if w.isNode() {
			at = prefix + "node."
		} else if w.replicas > 1 {
			v.Set(n.kind, at+"replicas", w.replicas, w.name)
		}
		fields, _ := runtime.DefaultUnstructuredConverter.ToUnstructured(&w.pod)
		for _, name := range []string{
			"nodeSelector", "tolerations", "affinity", "priorityClassName", "imagePullSecrets",
			"hostAliases",
		} {
			if value := fields[name]; value != nil {
				v.Set(n.kind, at+name, value, w.name)
			} else if name == "tolerations" { // ours have some
				v.Set(n.kind, at+name, []any{}, w.name)
			}
		}
		if folder := w.kubeletDir(); folder != "" && folder != defaultKubeletDir {
			v.Set(n.kind, "kubeletDir", folder, w.name)
		}
		for _, c := range w.pod.Containers {
			if len(c.Resources.Limits)+len(c.Resources.Requests) > 0 {
				v.Set(n.kind, at+"resources."+n.ownContainer(c), c.Resources, w.name)
			}
		}
	}
}

// ownContainer returns how our container of the same program is called.
func (n *neighbour) ownContainer(c corev1.Container) string {
	image, _, _ := strings.Cut(path.Base(c.Image), ":")
	return map[string]string{
		n.program(): "csi-driver", "livenessprobe": "csi-liveness-probe",
	}[image] + map[bool]string{true: image}[strings.HasPrefix(image, "csi-")]
}

// addLogin adds the login of an installation. Its process trusts the CAs in file ca, "" for none.
func (s *session) addLogin(
	ctx context.Context, v *charts.Values, n *neighbour, ca string,
) error {
	i := slices.IndexFunc(n.workloads, func(w workload) bool { return !w.isNode() })
	w := n.workloads[i]
	c := w.pod.Containers[slices.IndexFunc(w.pod.Containers, func(c corev1.Container) bool {
		return strings.Contains(commandOf(c), n.program())
	})]
	read := charts.ReaderOf(c.VolumeMounts, w.pod.Volumes,
		func(v corev1.Volume, key string) ([]byte, error) {
			return s.contentOf(ctx, w.GetNamespace(), v, key)
		})
	trusted, err := read(ca)
	if err != nil && ca != "" {
		v.Remark("login", "The driver trusts the CAs in %s: %v. Add the one of the cloud with "+
			"--set-file=credentials.cacert=FILE", ca, err)
	}
	v.Trust(string(trusted))
	if n.kind == choice.Cinder {
		var texts [][]byte
		for _, file := range arguments(commandOf(c), "cloud-config") {
			text, err := read(file)
			if err != nil {
				v.NoLogin("%s: %v. Add what check --values -f prints for a copy of it", file, err)
				return nil
			}
			texts = append(texts, text)
		}
		return v.AddConf("cloud.conf of "+w.name, texts, read)
	}
	for _, file := range arguments(commandOf(c), "runtime-config-file") {
		if text, err := read(file); err == nil {
			v.AddRuntimeConfig(text)
		}
	}
	for _, full := range n.secrets {
		namespace, name, _ := strings.Cut(full, "/")
		secret := find(ctx, s.guest, namespace, name, &corev1.Secret{})
		if secret == nil {
			v.Remark("login", "Secret %s does not exist, or you may not read it", full)
			continue
		}
		if err := v.AddSecret("Secret "+full, secret.Data, read); err != nil {
			return err
		}
	}
	return nil
}

// contentOf returns what a volume contains with a key.
func (s *session) contentOf(
	ctx context.Context, namespace string, v corev1.Volume, key string,
) ([]byte, error) {
	switch {
	case v.Secret != nil:
		secret := find(ctx, s.guest, namespace, v.Secret.SecretName, &corev1.Secret{})
		if secret == nil {
			return nil, fmt.Errorf("Secret %s does not exist, or you may not read it", v.Secret.SecretName)
		}
		return secret.Data[key], nil
	case v.ConfigMap != nil:
		config := find(ctx, s.guest, namespace, v.ConfigMap.Name, &corev1.ConfigMap{})
		return []byte(ptr.Deref(config, corev1.ConfigMap{}).Data[key]), nil
	}
	return nil, fmt.Errorf("it is in volume %s, which is not read", v.Name)
}
