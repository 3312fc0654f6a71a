package manila

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Reasons of events about share types.
const (
	reasonNameTaken = "StorageClassNameTaken"
	reasonIgnored   = "ShareTypeIgnored"
	reasonGone      = "ShareTypeGone"
	reasonNoNetwork = "ShareTypeWithoutNetwork"
)

// wantedClass is a StorageClass of a share type.
type wantedClass struct {
	name      string
	shareType openstack.ShareType
	options   choice.Class
}

// shareTypes returns the share types of the last list by name, and whether there was a list.
func (c *storageClassController) shareTypes() (types map[string]openstack.ShareType, listed bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	types = map[string]openstack.ShareType{}
	for _, t := range c.types {
		types[t.Name] = t
	}
	return types, c.listed
}

// wanted returns a StorageClass for each selected share type, sorted by the type, and the
// additional ones.
func (c *storageClassController) wanted(
	config *choice.Config, types map[string]openstack.ShareType, names map[string]string,
) []wantedClass {
	var all []wantedClass
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if config.Selects(name) {
			all = append(all, wantedClass{names[name], types[name], config.ClassOf(name)})
		}
	}
	for _, more := range config.More() {
		if shareType, offered := types[more.Type]; offered {
			all = append(all, wantedClass{more.Name, shareType, more.Class})
		}
	}
	return all
}

// isAdditional returns whether the administrator has chosen the StorageClass by its name.
func isAdditional(config *choice.Config, class *storagev1.StorageClass) bool {
	return slices.ContainsFunc(config.More(), func(more choice.NamedClass) bool {
		return more.Name == class.Name && isClassOf(class, more.Type)
	})
}

// fault returns why the driver cannot use the StorageClass, or why there is none. room is the
// number of StorageClasses that may be created.
func (w wantedClass) fault(existing *storagev1.StorageClass, room int) (reason, fault string) {
	if existing == nil {
		if fault := unusable(w.shareType.Name, room); fault != "" {
			return reasonIgnored,
				fmt.Sprintf("share type %q gets no StorageClass: %s", w.shareType.Name, fault)
		}
	}
	if w.shareType.NeedsNetwork && w.options.ShareNetworkID == "" {
		return reasonNoNetwork, fmt.Sprintf("share type %q needs a share network, which StorageClass %s "+
			"does not name, so Manila creates no shares. Set shareNetworkID for the share type in key %s "+
			"of ConfigMap %s, or exclude the share type there", w.shareType.Name, w.name, choice.Key,
			userConfigMap)
	}
	return "", ""
}

// parameters returns the parameters for the driver, except the Secrets.
func (w wantedClass) parameters() map[string]string {
	parameters := map[string]string{typeParameter: w.shareType.Name}
	if w.shareType.NeedsNetwork && w.options.ShareNetworkID != "" {
		parameters["shareNetworkID"] = w.options.ShareNetworkID
	}
	if len(w.options.ShareClients) > 0 {
		parameters["nfs-shareClient"] = strings.Join(w.options.ShareClients, ",")
	}
	if len(w.options.ShareMetadata) > 0 {
		metadata, _ := json.Marshal(w.options.ShareMetadata) // texts cannot fail
		parameters["appendShareMetadata"] = string(metadata)
	}
	return parameters
}

// unused returns the patterns and types of the choices that match no share type.
func (c *storageClassController) unused() []string {
	config, err := c.choices.Current()
	types, listed := c.shareTypes()
	if err != nil || config == nil || !listed {
		return nil
	}
	var unused []string
	for _, pattern := range config.UnusedPatterns(slices.Collect(maps.Keys(types))) {
		unused = append(unused, fmt.Sprintf("key %s of %s: %s matches no share type that Manila offers: "+
			"correct or remove it", choice.Key, c.choices.Name, pattern))
	}
	return unused
}

// required returns the StorageClass that the administrator has chosen. It sets every field that the
// API server would default, so that it can be compared.
func (c *storageClassController) required(
	config *choice.Config, w wantedClass,
) *storagev1.StorageClass {
	parameters := w.parameters()
	for _, call := range []string{"provisioner", "controller-expand", "node-stage", "node-publish"} {
		parameters["csi.storage.k8s.io/"+call+"-secret-name"] = loginSecret
		parameters["csi.storage.k8s.io/"+call+"-secret-namespace"] = c.cluster.Namespaces.Guest
	}
	class := &storagev1.StorageClass{
		ObjectMeta:           metav1.ObjectMeta{Name: w.name},
		Provisioner:          string(Name),
		Parameters:           parameters,
		ReclaimPolicy:        new(corev1.PersistentVolumeReclaimDelete),
		VolumeBindingMode:    new(storagev1.VolumeBindingImmediate),
		AllowVolumeExpansion: new(true),
	}
	w.options.Apply(class)
	config.MarkDefault(class)
	return class
}
