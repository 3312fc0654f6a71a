package classes

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Class is a StorageClass of a type.
type Class struct {
	Name    string
	Type    openstack.Type
	Options choice.Class
	// Existing means that the administrator has chosen a name that only operators give. Then the
	// StorageClass must exist, and keeps what Kubernetes does not allow to change.
	Existing bool
}

// Wanted returns a StorageClass for each selected type, sorted by the type, and the additional
// ones. names contains the name of the class of each type.
func (n Names) Wanted(
	config *choice.Config, types map[string]openstack.Type, names map[string]string,
) []Class {
	var all []Class
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if config.Selects(n.Kind, name) {
			all = append(all, Class{
				Name: names[name], Type: types[name], Options: config.ClassOf(name),
			})
		}
	}
	for _, more := range config.More() {
		if found, offered := types[more.Type]; offered || more.Type == "" {
			all = append(all, Class{more.Name, found, more.Class, strings.HasPrefix(more.Name, n.Prefix)})
		}
	}
	return all
}

// Unused returns what has no effect in the choices about types, each with its place and advice.
// types are those that OpenStack offers, nil if they are unknown.
func (n Names) Unused(config *choice.Config, types map[string]openstack.Type) []string {
	if config == nil {
		return nil
	}
	var unused []string
	matchNone := func(at *field.Path, text string) {
		unused = append(unused, fmt.Sprintf("%s: %q matches no %s that %s offers: correct or remove it",
			at, text, n.Noun, n.Service))
	}
	for name, patterns := range map[string][]string{
		"include": config.Types.Include, "exclude": config.Types.Exclude,
	} {
		for i, pattern := range patterns {
			only := choice.Config{Types: choice.Selection{Include: []string{pattern}}}
			selects := func(name string) bool { return only.Selects(n.Kind, name) }
			if types != nil && !slices.ContainsFunc(slices.Collect(maps.Keys(types)), selects) {
				matchNone(field.NewPath("types", name).Index(i), pattern)
			}
		}
	}
	for i, entry := range config.Classes {
		at := field.NewPath("classes").Index(i).Child("type")
		_, offered := types[entry.Type]
		switch {
		case entry.Type == "":
		case types != nil && !offered:
			matchNone(at, entry.Type)
		case entry.Name == "" && !config.Selects(n.Kind, entry.Type):
			unused = append(unused, fmt.Sprintf("%s: %q has no effect: types does not select this %s. "+
				"Select it there, or remove the entry", at, entry.Type, n.Noun))
		}
	}
	slices.Sort(unused)
	return unused
}

// Taken returns why there is no such StorageClass, or one that it cannot change; otherwise "".
func (n Names) Taken(wanted Class, existing *storagev1.StorageClass) string {
	typeName, name := wanted.Type.Name, wanted.Name
	switch {
	case wanted.Existing && existing == nil:
		return fmt.Sprintf("there is no StorageClass %s, and the operator creates one whose name starts "+
			"with %s only for a %s. Create it, or use another name in %s", name, n.Prefix, n.Noun, n.Place)
	case wanted.Existing && n.IsNameOf(name, typeName):
		return fmt.Sprintf("StorageClass %s is the one that the operator creates for %s %q. Remove the "+
			"name from its entry in %s", name, n.Noun, typeName, n.Place)
	case existing == nil || n.IsClassOf(existing, typeName):
	case n.IsNameOf(name, typeName):
		return fmt.Sprintf("%s %q gets no StorageClass: another StorageClass has the name %s. Delete "+
			"that StorageClass, or create one for the %s yourself", n.Noun, typeName, name, n.Noun)
	case existing.Provisioner != n.Provisioner:
		return fmt.Sprintf("StorageClass %s is of driver %s. Use another name in its entry in %s", name,
			existing.Provisioner, n.Place)
	default:
		of, kept := existing.Parameters[TypeParameter], "this"
		if n.IsNameOf(name, of) {
			kept = "no"
		}
		return fmt.Sprintf("StorageClass %s has the %s %q, and its entry in %s %q. Give the entry %s "+
			"name and type %q", name, n.Noun, of, n.Place, typeName, kept, of)
	}
	return ""
}

// Keep sets what Kubernetes does not allow to change to that of a StorageClass that must stay.
func (w Class) Keep(required, existing *storagev1.StorageClass) {
	if w.Existing {
		required.Parameters, required.ReclaimPolicy = existing.Parameters, existing.ReclaimPolicy
		required.VolumeBindingMode = existing.VolumeBindingMode
	}
}

// Fault returns why the driver cannot use the StorageClass, or why there is none. The reason is
// that of an event.
func (n Names) Fault(wanted Class, existing *storagev1.StorageClass) (reason, fault string) {
	if existing == nil && !isPrintable(wanted.Type.Name) {
		return n.Ignored(), fmt.Sprintf("%s %q gets no StorageClass: its name contains unprintable "+
			"characters. Ask the administrator of the cloud to rename it", n.Noun, wanted.Type.Name)
	}
	if protocol := wanted.Type.OtherProtocol; protocol != "" {
		effect := "it gets no StorageClass"
		if existing != nil {
			effect = "StorageClass " + wanted.Name + " gets none"
		}
		return n.Ignored(), fmt.Sprintf("%s %q has no %s that the driver mounts (storage_protocol is "+
			"%q, not NFS), so %s. Exclude it in %s", n.Noun, wanted.Type.Name, n.Volumes, protocol, effect,
			n.Place)
	}
	if wanted.Type.NeedsNetwork && wanted.Options.ShareNetworkID == "" {
		return n.NoNetwork(), fmt.Sprintf("%s %q needs a share network, which StorageClass %s does not "+
			"name, so %s creates no %s. Set shareNetworkID for the %s in %s, or exclude the %s there",
			n.Noun, wanted.Type.Name, wanted.Name, n.Service, n.Volumes, n.Noun, n.Place, n.Noun)
	}
	return "", ""
}

// isPrintable returns whether the name of a type may be in a StorageClass.
func isPrintable(typeName string) bool {
	return !strings.ContainsFunc(typeName, func(r rune) bool { return !unicode.IsGraphic(r) })
}

// OfVolumes returns the StorageClass of a volume type: standard-csi with the type.
func (n Names) OfVolumes(w Class) *storagev1.StorageClass {
	parameters := map[string]string{}
	if w.Type.Name != "" {
		parameters[TypeParameter] = w.Type.Name
	}
	return n.object(w, parameters, storagev1.VolumeBindingWaitForFirstConsumer)
}

// OfShares returns the StorageClass of a share type. The driver logs in with a Secret.
func (n Names) OfShares(w Class, namespace, secret string) *storagev1.StorageClass {
	parameters := shareParameters(w)
	for _, call := range []string{"provisioner", "controller-expand", "node-stage", "node-publish"} {
		parameters["csi.storage.k8s.io/"+call+"-secret-name"] = secret
		parameters["csi.storage.k8s.io/"+call+"-secret-namespace"] = namespace
	}
	return n.object(w, parameters, storagev1.VolumeBindingImmediate)
}

// object returns a StorageClass with every field that the API server would default.
func (n Names) object(
	w Class, parameters map[string]string, mode storagev1.VolumeBindingMode,
) *storagev1.StorageClass {
	class := &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: w.Name},
		Provisioner:          n.Provisioner,
		Parameters:           parameters,
		ReclaimPolicy:        new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    &mode,
		AllowVolumeExpansion: new(true),
	}
	w.Options.Apply(class)
	return class
}

// SetTopology makes the shares of a new StorageClass follow pods into zones if topology is enabled:
// into that of the first pod, or the zone that the options name. An existing StorageClass stays
// with or without topology, because the API server does not change it.
func (w Class) SetTopology(to, existing *storagev1.StorageClass, enabled bool) {
	if existing != nil {
		enabled = HasTopology(existing)
	}
	if !enabled {
		return
	}
	if w.Options.VolumeBindingMode == "" {
		to.VolumeBindingMode = new(storagev1.VolumeBindingWaitForFirstConsumer)
	}
	if zone := w.Options.Availability; zone != "" {
		requirement := corev1.TopologySelectorLabelRequirement{Key: zoneLabel, Values: []string{zone}}
		to.AllowedTopologies = []corev1.TopologySelectorTerm{{
			MatchLabelExpressions: []corev1.TopologySelectorLabelRequirement{requirement},
		}}
		return
	}
	to.AllowedTopologies = []corev1.TopologySelectorTerm{} // Merge keeps nil
	to.Parameters[autoTopology] = "true"
}

// HasTopology returns whether SetTopology has changed the StorageClass.
func HasTopology(class *storagev1.StorageClass) bool {
	return len(class.AllowedTopologies) > 0 || class.Parameters[autoTopology] == "true"
}

// shareParameters returns the parameters for the driver, except the Secrets.
func shareParameters(w Class) map[string]string {
	parameters := map[string]string{TypeParameter: w.Type.Name}
	if w.Type.NeedsNetwork && w.Options.ShareNetworkID != "" {
		parameters[NetworkParameter] = w.Options.ShareNetworkID
	}
	if len(w.Options.ShareClients) > 0 {
		parameters["nfs-shareClient"] = strings.Join(w.Options.ShareClients, ",")
	}
	if len(w.Options.ShareMetadata) > 0 {
		metadata, _ := json.Marshal(w.Options.ShareMetadata) // texts cannot fail
		parameters["appendShareMetadata"] = string(metadata)
	}
	return parameters
}

// Merge returns the existing StorageClass with every field that required sets. Whether it is the
// default stays the administrator's choice, unless the operator owns that.
func Merge(existing, required *storagev1.StorageClass, ownsDefault bool) *storagev1.StorageClass {
	ret := existing.DeepCopy()
	ret.Labels = labels.Merge(ret.Labels, required.Labels)
	ret.Annotations = labels.Merge(ret.Annotations, required.Annotations)
	if chosen, found := existing.Annotations[choice.DefaultAnnotation]; found && !ownsDefault {
		ret.Annotations[choice.DefaultAnnotation] = chosen
	}
	if ownsDefault {
		delete(ret.Annotations, choice.BetaDefaultAnnotation)
	}
	ret.Provisioner = required.Provisioner
	ret.Parameters = required.Parameters
	ret.ReclaimPolicy = cmp.Or(required.ReclaimPolicy, existing.ReclaimPolicy)
	ret.VolumeBindingMode = cmp.Or(required.VolumeBindingMode, existing.VolumeBindingMode)
	ret.AllowVolumeExpansion = cmp.Or(required.AllowVolumeExpansion, existing.AllowVolumeExpansion)
	if required.MountOptions != nil {
		ret.MountOptions = required.MountOptions
	}
	if required.AllowedTopologies != nil {
		ret.AllowedTopologies = required.AllowedTopologies
	}
	return ret
}
