package generator

import (
	"bytes"
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/pkg/patch"
)

// patch applies a patch to its target. A patch that changes nothing is an error.
func (a *assembly) patch(from source, entry patchEntry, values map[string]string) error {
	if !a.has(entry.Only) {
		return nil
	}
	target := a.assets[entry.Target]
	if target == nil {
		return from.errorf("patch %q has no target: %s", entry.file(), a.missing(entry.Target))
	}
	layer, err := a.read(from.beside(entry.file()), values)
	if err != nil {
		return err
	}
	pointer, err := containerPointer(target, entry.Container)
	if err != nil {
		return from.errorf("%w", err)
	}
	patched, err := entry.apply(target.Data, layer.Text, pointer)
	if err != nil {
		return layer.Errorf("", "patching %q: %w", entry.Target, err)
	}
	if bytes.Equal(patched, target.Data) {
		return from.errorf("patch %q changes nothing in %q", entry.file(), entry.Target)
	}
	return a.change(target, layer, patched)
}

func (p patchEntry) apply(object, text []byte, pointer string) ([]byte, error) {
	if p.Merge != "" {
		return patch.Merge(object, text)
	}
	return patch.JSON6902(object, text, pointer)
}

// podTemplate returns the pod template of a workload, and an empty one for other objects.
func podTemplate(workload *asset) corev1.PodTemplateSpec {
	switch object := workload.object.(type) {
	case *appsv1.Deployment:
		return object.Spec.Template
	case *appsv1.DaemonSet:
		return object.Spec.Template
	}
	return corev1.PodTemplateSpec{}
}

// containerPointer returns the JSON pointer to a container of a workload. An empty name means the
// whole object.
func containerPointer(target *asset, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	spec := podTemplate(target).Spec
	hasName := func(c corev1.Container) bool { return c.Name == name }
	if i := slices.IndexFunc(spec.Containers, hasName); i >= 0 {
		return fmt.Sprintf("/spec/template/spec/containers/%d", i), nil
	}
	if i := slices.IndexFunc(spec.InitContainers, hasName); i >= 0 {
		return fmt.Sprintf("/spec/template/spec/initContainers/%d", i), nil
	}
	return "", fmt.Errorf("%q has no container %q", target.Name, name)
}
