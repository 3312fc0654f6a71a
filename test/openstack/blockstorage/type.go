//go:build linux

package blockstorage

import (
	"fmt"
	"slices"
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// defaultType is the volume type that Cinder creates when it is installed.
const defaultType = "__DEFAULT__"

// typeID returns the ID of a volume type, which is the same in each run.
func typeID(name string) string { return state.NamedID("volume type", name) }

// AddType creates a public volume type. It fails if there is one with the same name.
func (s *Service) AddType(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.Contains(s.types, name) {
		return fmt.Errorf("volume type %q exists already", name)
	}
	s.types = append(s.types, name)
	return nil
}

// findType returns the name of a volume type. An empty text is the default type.
func (s *Service) findType(nameOrID string) (name string, err error) {
	if nameOrID == "" {
		return defaultType, nil
	}
	i := slices.IndexFunc(s.types,
		func(name string) bool { return name == nameOrID || typeID(name) == nameOrID })
	if i < 0 {
		return "", rest.NotFound("Volume type with name %s could not be found.", nameOrID)
	}
	return s.types[i], nil
}

// listTypes answers with the volume types of a page; API reference: List all volume types.
func (s *Service) listTypes(r *rest.Request) (rest.Answer, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	types := map[string]string{}
	for _, name := range s.types {
		types[typeID(name)] = name
	}
	return rest.Collection[string]{
		Name: "volume_types", Links: "volume_type_links",
		Keep:    func(string) bool { return true },
		Created: func(string) time.Time { return time.Time{} },
		Describe: func(name string) map[string]any {
			return map[string]any{
				"id": typeID(name), "name": name, "description": nil, "is_public": true,
				"os-volume-type-access:is_public": true,
			}
		},
	}.Answer(r, types)
}
