package kubectl

import (
	"cmp"
	"context"
	"errors"
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
	v.AddCSIDriver(n.kind, n.registered.Spec) // inline volumes have no PersistentVolume
	if n.zoned > 0 {                          // without topology no pod could use these
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
	newest, revision, latest := (*charts.Release)(nil), 0, 0
	for _, secret := range list[corev1.SecretList](ctx, s.guest, client.InNamespace(namespace),
		client.MatchingLabels{"owner": "helm", "name": name}).Items {
		one, err := charts.DecodeRelease(secret.Data["release"])
		if err != nil {
			return nil, err
		}
		latest = max(latest, one.Version)
		if one.Info.Status == "deployed" && one.Version > revision {
			newest, revision = one, one.Version
		}
	}
	if s.guest.hidden["Secrets"] {
		return nil, fmt.Errorf("you may not read Secrets in namespace %s, which contain the values of "+
			"release %s: use the permissions of an administrator", namespace, name)
	}
	if newest != nil && latest > revision {
		v.Remark(n.title, "The values are those of revision %d of Helm release %s, the last that was "+
			"deployed; a later operation has not ended well", revision, name)
	}
	return newest, nil
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
	names := map[string]string{
		"cluster": "clusterID", "pvc-annotations": "pvcAnnotations", "timeout": "timeout",
		"v": "logVerbosityLevel", "feature-gates": "csi.provisioner.topology",
	}
	if n.kind == choice.Manila {
		names = map[string]string{
			"cluster-id": "csimanila.clusterID", "pvc-annotations": "csimanila.pvcAnnotations",
			"v": "logVerbosityLevel", "with-topology": "csimanila.topologyAwarenessEnabled",
			"extra-create-metadata": "controllerplugin.provisioner.extraCreateMetadata",
		}
	}
	values := map[string]any{}
	for flag, name := range names {
		for _, value := range n.arguments(flag) {
			_, gate, found := strings.Cut(value, "Topology=")
			if value, _, _ = strings.Cut(cmp.Or(gate, value), ","); flag == "feature-gates" && !found {
				continue
			}
			_ = unstructured.SetNestedField(values, boolean(value), strings.Split(name, ".")...)
		}
	}
	return values
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
	read := func(name string) ([]byte, error) { return s.fileOf(ctx, w, c, name) }
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

// fileOf reads a file of a container from the Secret or ConfigMap that is mounted there.
func (s *session) fileOf(
	ctx context.Context, w workload, c corev1.Container, name string,
) ([]byte, error) {
	mounts := slices.Clone(c.VolumeMounts)
	slices.SortFunc(mounts, func(a, b corev1.VolumeMount) int {
		return len(b.MountPath) - len(a.MountPath)
	})
	for _, m := range mounts {
		key, inside := strings.CutPrefix(path.Clean(name), strings.TrimSuffix(m.MountPath, "/"))
		if !inside || key != "" && key[0] != '/' {
			continue
		}
		key = strings.TrimPrefix(path.Join(m.SubPath, key), "/")
		i := slices.IndexFunc(w.pod.Volumes, func(v corev1.Volume) bool { return v.Name == m.Name })
		if i < 0 {
			break
		}
		switch v := w.pod.Volumes[i]; {
		case v.Secret != nil:
			secret := find(ctx, s.guest, w.GetNamespace(), v.Secret.SecretName, &corev1.Secret{})
			if secret == nil {
				return nil, fmt.Errorf("Secret %s does not exist, or you may not read it", v.Secret.SecretName)
			}
			if text, found := secret.Data[keyIn(v.Secret.Items, key)]; found {
				return text, nil
			}
		case v.HostPath != nil:
			return nil, fmt.Errorf("it is the file %s on the nodes", path.Join(v.HostPath.Path, key))
		case v.ConfigMap != nil:
			config := ptr.Deref(find(ctx, s.guest, w.GetNamespace(), v.ConfigMap.Name,
				&corev1.ConfigMap{}), corev1.ConfigMap{})
			if text, found := config.Data[keyIn(v.ConfigMap.Items, key)]; found {
				return []byte(text), nil
			}
		}
		break
	}
	return nil, errors.New("the file is in the image, or does not exist")
}

// keyIn returns the key of the file in a volume.
func keyIn(items []corev1.KeyToPath, file string) string {
	for _, item := range items {
		if item.Path == file {
			return item.Key
		}
	}
	return file
}
