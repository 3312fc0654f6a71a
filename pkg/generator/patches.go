package generator

import (
	"bytes"
	"errors"
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
	if (entry.Merge == "") == (entry.JSON6902 == "") {
		return from.errorf("a patch has either merge or json6902")
	}
	target := a.assets[entry.Target]
	if target == nil {
		return from.errorf("patch %q has no target: %s", entry.file(), a.missing(entry.Target))
	}
	layer, err := a.read(from, entry.file(), values)
	if err != nil {
		return err
	}
	for _, container := range a.containersOf(target, entry) {
		pointer, err := containerPointer(target, container)
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
		if err := a.change(target, layer, patched); err != nil {
			return err
		}
	}
	return nil
}

// applyToEach changes every object as the layer of the flavour says, after all other changes.
func (a *assembly) applyToEach() error {
	layer := a.flavours[a.flavour]
	if layer.content.Each == "" {
		return nil
	}
	var errs []error
	for name, asset := range a.assets {
		if asset.kind() != "Namespace" {
			entry := patchEntry{Target: name, Merge: layer.content.Each}
			errs = append(errs, a.patch(layer.source("each"), entry, a.values))
		}
	}
	return errors.Join(errs...)
}

// containersOf returns the containers that a patch changes: the one that it names, those of
// sidecars with its trait, or "" for the whole object.
func (a *assembly) containersOf(target *asset, entry patchEntry) []string {
	if entry.Trait == "" {
		return []string{entry.Container}
	}
	var names []string
	for _, container := range a.containers {
		if a.workload(container.part) == target && slices.Contains(container.traits, entry.Trait) {
			names = append(names, container.name)
		}
	}
	return names
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

// containerPointer returns the JSON pointer to a container of a workload; for "" the whole object.
func containerPointer(target *asset, name string) (string, error) {
	if name == "" {
		return "", nil
	}
	spec := podTemplate(target).Spec
	for list, containers := range map[string][]corev1.Container{
		"containers": spec.Containers, "initContainers": spec.InitContainers,
	} {
		hasName := func(c corev1.Container) bool { return c.Name == name }
		if i := slices.IndexFunc(containers, hasName); i >= 0 {
			return fmt.Sprintf("/spec/template/spec/%s/%d", list, i), nil
		}
	}
	return "", fmt.Errorf("%q has no container %q", target.Name, name)
}
