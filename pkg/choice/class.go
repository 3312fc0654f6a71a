package choice

import (
	"cmp"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
)

// The annotations that mark the StorageClass of claims that do not name one.
const (
	DefaultAnnotation     = "storageclass.kubernetes.io/is-default-class"
	BetaDefaultAnnotation = "storageclass.beta.kubernetes.io/is-default-class"
)

// IsDefault returns whether a StorageClass is a default, as Kubernetes decides it.
func IsDefault(class *storagev1.StorageClass) bool {
	return class.Annotations[DefaultAnnotation] == "true" ||
		class.Annotations[BetaDefaultAnnotation] == "true"
}

// ReasonNotWanted is the reason of conditions while Installs returns false.
const ReasonNotWanted = "NotWanted"

// Installs returns whether the operator installs the driver.
func (c *Config) Installs() bool { return c == nil || c.Driver != Never }

// Selects returns whether a type gets a StorageClass. Without a choice, each share type gets one,
// and no volume type.
func (c *Config) Selects(kind Kind, name string) bool {
	if c == nil {
		return kind == Manila
	}
	included := kind == Manila && c.Types.Include == nil || matchesAny(c.Types.Include, name)
	return included && !matchesAny(c.Types.Exclude, name)
}

// NeedsVolumeTypes returns whether the operator must know the volume types.
func (c *Config) NeedsVolumeTypes() bool {
	return c != nil && (len(c.Types.Include) > 0 || len(c.Types.Exclude) > 0 || len(c.Classes) > 0)
}

func matchesAny(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		matched, err := path.Match(pattern, name)
		return err == nil && matched
	})
}

// Exactly returns a pattern that matches only the name.
func Exactly(name string) string {
	return strings.NewReplacer(`\`, `\\`, `*`, `\*`, `?`, `\?`, `[`, `\[`).Replace(name)
}

// ClassOf returns the options of the StorageClass that the operator creates for a type.
func (c *Config) ClassOf(typeName string) Class {
	if c == nil {
		return Class{}
	}
	for _, own := range c.Classes {
		if own.Type == typeName && own.Name == "" {
			return c.Class.with(own.Class)
		}
	}
	return c.Class
}

// More returns the additional StorageClasses, with all their options.
func (c *Config) More() []NamedClass {
	if c == nil {
		return nil
	}
	var more []NamedClass
	for _, own := range c.Classes {
		if own.Name != "" {
			more = append(more, NamedClass{own.Type, own.Name, c.Class.with(own.Class)})
		}
	}
	return more
}

// with returns the options with those of another Class, which have precedence.
func (c Class) with(other Class) Class {
	c.ReclaimPolicy = cmp.Or(other.ReclaimPolicy, c.ReclaimPolicy)
	c.VolumeBindingMode = cmp.Or(other.VolumeBindingMode, c.VolumeBindingMode)
	c.Availability = cmp.Or(other.Availability, c.Availability)
	c.FSType = cmp.Or(other.FSType, c.FSType)
	c.ShareNetworkID = cmp.Or(other.ShareNetworkID, c.ShareNetworkID)
	if other.MountOptions != nil {
		c.MountOptions = other.MountOptions
	}
	if other.ShareClients != nil {
		c.ShareClients = other.ShareClients
	}
	c.Labels = merged(c.Labels, other.Labels)
	c.Annotations = merged(c.Annotations, other.Annotations)
	c.ShareMetadata = merged(c.ShareMetadata, other.ShareMetadata)
	return c
}

func merged(base, other map[string]string) map[string]string {
	if base == nil {
		return other
	}
	both := maps.Clone(base)
	maps.Copy(both, other)
	return both
}

// Apply sets the options that do not depend on the driver.
func (c Class) Apply(to *storagev1.StorageClass) {
	if c.ReclaimPolicy != "" {
		to.ReclaimPolicy = new(corev1.PersistentVolumeReclaimPolicy(c.ReclaimPolicy))
	}
	if c.VolumeBindingMode != "" {
		to.VolumeBindingMode = new(storagev1.VolumeBindingMode(c.VolumeBindingMode))
	}
	if c.MountOptions != nil {
		to.MountOptions = c.MountOptions
	}
	to.Labels, to.Annotations = merged(to.Labels, c.Labels), merged(to.Annotations, c.Annotations)
	if c.Availability != "" {
		to.Parameters = merged(to.Parameters, map[string]string{"availability": c.Availability})
	}
	if c.FSType != "" {
		to.Parameters = merged(to.Parameters, map[string]string{"csi.storage.k8s.io/fstype": c.FSType})
	}
}

// ForceCreate returns the parameter force-create of the VolumeSnapshotClass, or "" if it is the
// administrator's.
func (c *Config) ForceCreate() string {
	if c == nil || c.SnapshotClass == nil {
		return ""
	}
	return strconv.FormatBool(c.SnapshotClass.ForceCreate)
}

// AbsentDefault begins what a condition says, behind its place, if the chosen default is missing.
const AbsentDefault = "defaultClass: there is no StorageClass "

// OwnsDefault returns whether the operator decides which of its StorageClasses is the default.
func (c *Config) OwnsDefault() bool { return c != nil && c.DefaultClass != "" }

// MarkDefault sets the annotation about the default of a StorageClass, if the operator owns it.
func (c *Config) MarkDefault(class *storagev1.StorageClass) {
	if c.OwnsDefault() {
		class.Annotations = merged(class.Annotations, map[string]string{
			DefaultAnnotation: strconv.FormatBool(class.Name == c.DefaultClass),
		})
	}
}
