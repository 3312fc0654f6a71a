package generator

import (
	"bytes"
	"fmt"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/openstack-csi/csi-operator/pkg/patch"
)

// patch applies a patch file to its target and insists that something changes.
func (a *assembly) patch(m *manifest, entry patchEntry, at Position, values map[string]string) error {
	if !a.wanted(entry.Only) {
		return nil
	}
	target := a.assets[entry.Target]
	if target == nil {
		return faultf(at, "patch %q has no target: %s", entry.file(), a.missing(entry.Target))
	}
	file := m.beside(entry.file())
	text, err := a.read(file, values)
	if err != nil {
		return err
	}
	pointer, err := containerPointer(target, entry.Container)
	if err != nil {
		return &Error{Position: at, Err: err}
	}
	patched, err := entry.apply(target.Data, text, pointer)
	if err != nil {
		return faultIn(file, fmt.Errorf("patching %q: %w", entry.Target, err))
	}
	if bytes.Equal(patched, target.Data) {
		return faultf(at, "patch %q changes nothing in %q", entry.file(), entry.Target)
	}
	return a.change(target, origin{file: file, text: text}, patched)
}

func (p patchEntry) apply(object, text []byte, pointer string) ([]byte, error) {
	if p.Merge != "" {
		return patch.Merge(object, text)
	}
	return patch.JSON6902(object, text, pointer)
}

// podTemplate returns the pods that a workload makes; other objects make none.
func podTemplate(workload *asset) corev1.PodTemplateSpec {
	switch object := workload.object.(type) {
	case *appsv1.Deployment:
		return object.Spec.Template
	case *appsv1.DaemonSet:
		return object.Spec.Template
	}
	return corev1.PodTemplateSpec{}
}

// containerPointer returns the JSON pointer to a container of a workload; to the whole object if name is "".
func containerPointer(target *asset, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	template := podTemplate(target)
	for i, container := range template.Spec.Containers {
		if container.Name == name {
			return fmt.Sprintf("/spec/template/spec/containers/%d", i), nil
		}
	}
	for i, container := range template.Spec.InitContainers {
		if container.Name == name {
			return fmt.Sprintf("/spec/template/spec/initContainers/%d", i), nil
		}
	}
	return "", fmt.Errorf("%q has no container %q", target.Name, name)
}
