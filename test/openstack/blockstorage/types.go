//go:build linux

package blockstorage

import (
	"cmp"
	"maps"
	"slices"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// defaultType is the name of the volume type that Cinder creates when it is installed.
const defaultType = "__DEFAULT__"

// typeID returns the ID of a volume type, which depends on nothing but its name.
func typeID(name string) string { return state.NamedID("volume type", name) }

// findType returns a volume type by name or ID, the default one for "", or the error 404.
func (s *Service) findType(nameOrID string) (Type, error) {
	nameOrID = cmp.Or(nameOrID, s.config.Types[0].Name)
	i := slices.IndexFunc(s.config.Types, func(t Type) bool {
		return t.Name == nameOrID || typeID(t.Name) == nameOrID
	})
	if i < 0 {
		return Type{}, rest.NotFound("Volume type with name %s could not be found.", nameOrID)
	}
	return s.config.Types[i], nil
}

func (s *Service) listTypes(*rest.Request) (rest.Answer, error) {
	types := []any{}
	for _, volumeType := range s.config.Types {
		types = append(types, describeType(volumeType))
	}
	return rest.Answer{Content: map[string]any{"volume_types": types}}, nil
}

// showType answers with a volume type by ID, or with the default type for the ID default.
func (s *Service) showType(r *rest.Request) (rest.Answer, error) {
	id := r.PathValue("id")
	for i, volumeType := range s.config.Types {
		if typeID(volumeType.Name) == id || (id == "default" && i == 0) {
			description := describeType(volumeType)
			if id == "default" {
				delete(description, "os-volume-type-access:is_public")
			}
			return rest.Answer{Content: map[string]any{"volume_type": description}}, nil
		}
	}
	return rest.Answer{}, rest.NotFound("Volume type %s could not be found.", id)
}

// describeType returns a volume type; API reference: Show volume type detail.
func describeType(volumeType Type) map[string]any {
	specs := map[string]string{}
	maps.Copy(specs, volumeType.ExtraSpecs)
	if volumeType.Multiattach {
		specs["multiattach"] = "<is> True"
	}
	var text any
	if volumeType.Name == defaultType {
		text = "Default Volume Type"
	}
	return map[string]any{
		"id": typeID(volumeType.Name), "name": volumeType.Name, "description": text, "is_public": true,
		"os-volume-type-access:is_public": true, "extra_specs": specs,
	}
}
