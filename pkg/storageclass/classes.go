package storageclass

import (
	"cmp"
	"fmt"
	"maps"
	"slices"

	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// reasonNameTaken is the reason of an event about a type. Others start with Names.Type.
const reasonNameTaken = "StorageClassNameTaken"

// Limits for clouds that keep adding and removing types.
const (
	// maxClasses is the number of StorageClasses of the driver at which the operator creates no more.
	// It deletes none of removed types.
	maxClasses = 1000
	// maxTold is the maximum number of types in an event or an error.
	maxTold = 5
)

func (c *Controller) countOurs(existing map[string]*storagev1.StorageClass) int {
	count := 0
	for _, class := range existing {
		if class.Provisioner == c.Provisioner {
			count++
		}
	}
	return count
}

// Types returns the types of the last list by name, nil without one. Callers must not change it.
func (c *Controller) Types() map[string]openstack.Type {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.types
}

// isAdditional returns whether the administrator has chosen the StorageClass by its name.
func (c *Controller) isAdditional(config *choice.Config, class *storagev1.StorageClass) bool {
	return slices.ContainsFunc(config.More(), func(more choice.NamedClass) bool {
		return more.Name == class.Name && c.IsClassOf(class, more.Type)
	})
}

// Selected returns the existing StorageClasses of the types that the administrator selects, and the
// additional ones.
func (c *Controller) Selected() (found []*storagev1.StorageClass) {
	config, err := c.choices.Current()
	listed, failed := c.classes.List(labels.Everything())
	if err != nil || failed != nil {
		return nil
	}
	for _, class := range listed {
		selected := config.Selects(c.Kind, class.Parameters[classes.TypeParameter])
		if selected && c.hasOwnName(class) || c.isAdditional(config, class) {
			found = append(found, class)
		}
	}
	slices.SortFunc(found, func(a, b *storagev1.StorageClass) int {
		return cmp.Compare(a.Name, b.Name)
	})
	return found
}

// limited returns the fault about the types beyond maxClasses, whose names are quoted.
func (c *Controller) limited(excess []string) string {
	return fmt.Sprintf("the driver has %d StorageClasses, and the operator creates no more, so "+
		"%d %ss get none: %s. Exclude %ss in %s, or delete StorageClasses that nobody uses", maxClasses,
		len(excess), c.Noun, cluster.Joined(excess, maxTold, ", "), c.Noun, c.Place)
}

// Unused returns what has no effect in the choices about types, for a condition.
func (c *Controller) Unused() []string {
	config, err := c.choices.Current()
	types := c.Types()
	if err != nil || types == nil {
		return nil
	}
	unused := c.Names.Unused(config, types)
	for i, text := range unused {
		unused[i] = c.Place + ": " + text
	}
	return unused
}

// gone returns a fault for each class that an operator created for a type that is not listed.
func (c *Controller) gone(
	existing map[string]*storagev1.StorageClass, names map[string]string,
) []string {
	var faults []string
	for _, name := range slices.Sorted(maps.Keys(existing)) {
		typeName := existing[name].Parameters[classes.TypeParameter]
		if _, offered := names[typeName]; !offered && c.created(existing[name]) {
			faults = append(faults, fmt.Sprintf("%s %q is gone, so %s creates no %s for StorageClass %s. "+
				"Ask the administrator of the cloud for the %s, or delete the StorageClass",
				c.Noun, typeName, c.Service, c.Volumes, name, c.Noun))
		}
	}
	return faults
}

// created returns whether an operator created the class, judged by its name and by
// Driver.Created. The rest depends on the release, and the administrator may have changed it.
func (c *Controller) created(class *storagev1.StorageClass) bool {
	return c.hasOwnName(class) && c.driver.Created(class)
}

// hasOwnName returns whether the class has a name that only operators give it.
func (c *Controller) hasOwnName(class *storagev1.StorageClass) bool {
	typeName := class.Parameters[classes.TypeParameter]
	return c.IsClassOf(class, typeName) && c.IsNameOf(class.Name, typeName)
}
