package charts

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
)

// AddClasses takes over StorageClasses with their names, unless a parameter has no equal.
func (v *Values) AddClasses(kind choice.Kind, classes []storagev1.StorageClass) {
	var entries []any
	var types []string // without this choice no volume type gets a class
	path := lower(kind) + ".spec."
	for _, class := range classes {
		about := "StorageClass " + class.Name
		entry, other := entryOf(kind, &class)
		_, isNamed := entry["name"]
		// The operator does not change a class of its prefix, but may create that of a type.
		reserved := strings.HasPrefix(class.Name, choice.ClassPrefix(kind)) &&
			(isNamed || kind == choice.Cinder)
		if of := class.Provisioner; of != "" && !strings.HasSuffix(of, lower(kind)+".csi.openstack.org") {
			other = "It is of driver " + of
		} else if !isNamed && !reserved && other != "" {
			v.Remark(about, "%s, and the operator changes the class, which it names so itself.", other)
			other = ""
		} else if reserved {
			other = ""
		}
		if cloud := class.Parameters["cloud"]; cloud != "" {
			v.named += ". " + about + " names " + cloud
		}
		if other != "" {
			v.Remark(about, "%s, so the class stays yours: keep it.", other)
			continue
		}
		all := append(slices.Clone(entries), entry)
		if fault := faultOf(kind, path+"classes", all); fault != "" {
			at := fmt.Sprintf("classes[%d].", len(entries)) // which the file does not have
			v.Remark(about, "It is not taken over: %s", strings.ReplaceAll(fault, at, ""))
			continue
		}
		if kind == choice.Cinder && !isNamed {
			types = append(types, choice.Exactly(class.Parameters["type"]))
		} else if reserved {
			v.Remark(about, "It must exist when the operator starts: keep it when you remove the release.")
		}
		entries = all
		if choice.IsDefault(&class) {
			v.Set(kind, path+"defaultClass", class.Name, about)
		}
	}
	if len(entries) > 0 {
		v.Set(kind, path+"classes", entries, "StorageClasses")
	}
	if len(types) > 0 {
		v.Set(kind, path+"types.include", types, "StorageClasses")
	}
}

// entryOf returns the entry of the choices for a class, without a name that the operator gives the
// type itself, and what has no equal.
func entryOf(kind choice.Kind, class *storagev1.StorageClass) (entry map[string]any, other string) {
	entry = map[string]any{}
	if kind == choice.Manila {
		entry["type"] = "default" // of the driver
	}
	if policy := class.ReclaimPolicy; policy != nil {
		entry["reclaimPolicy"] = string(*policy)
	}
	if mode := class.VolumeBindingMode; mode != nil {
		entry["volumeBindingMode"] = string(*mode)
	}
	if len(class.MountOptions) > 0 {
		entry["mountOptions"] = class.MountOptions
	}
	if len(class.AllowedTopologies) > 0 {
		other = "Its allowedTopologies have no equal"
	}
	for name, value := range class.Parameters {
		var metadata map[string]any
		switch name {
		case "type", "availability", "shareNetworkID":
			entry[name] = value
		case "csi.storage.k8s.io/fstype", "fsType", "fstype":
			entry["fsType"] = value
		case "nfs-shareClient":
			entry["shareClients"] = strings.Split(value, ",")
		case "appendShareMetadata":
			if json.Unmarshal([]byte(value), &metadata) != nil {
				other = "The parameter " + name + " has no equal"
			}
			entry["shareMetadata"] = metadata
		case "autoTopology", "protocol":
		default:
			if !strings.HasPrefix(name, "csi.storage.k8s.io/") {
				other = "The parameter " + name + " has no equal"
			}
		}
	}
	if of, _ := entry["type"].(string); !choice.IsOwnName(kind, class.Name, of) {
		entry["name"] = class.Name
	}
	return entry, other
}

// equalIn names the equal of a parameter of a StorageClass among values, "" for other values.
func equalIn(kind choice.Kind, name string) string {
	_, parameter, _ := strings.Cut(name, ".parameters.")
	entry, _ := entryOf(kind, &storagev1.StorageClass{Parameters: map[string]string{parameter: "{}"}})
	for field, value := range entry {
		if field != "name" && value != "default" {
			return " Its equal is " + field + " of an entry of " + lower(kind) + ".spec.classes. A " +
				"StorageClass that exists keeps its own."
		}
	}
	return ""
}

// AddCSIDriver keeps how Kubernetes uses the driver.
func (v *Values) AddCSIDriver(kind choice.Kind, spec storagev1.CSIDriverSpec) {
	fields := map[string]any{"seLinuxMount": spec.SELinuxMount != nil && *spec.SELinuxMount}
	if policy := spec.FSGroupPolicy; policy != nil {
		fields["fsGroupPolicy"] = string(*policy)
	}
	if len(spec.VolumeLifecycleModes) > 0 {
		fields["volumeLifecycleModes"] = spec.VolumeLifecycleModes
	}
	v.Set(kind, lower(kind)+".spec.csiDriver", fields, "CSIDriver")
}
