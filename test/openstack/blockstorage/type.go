//go:build linux

package blockstorage

import (
	"time"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// defaultType is the volume type that Cinder creates when it is installed.
const defaultType = "__DEFAULT__"

// typeID returns the ID of a volume type, which is the same in each run.
func typeID(name string) string { return state.NamedID("volume type", name) }

// checkType returns an error unless a text names the default type, the only one.
func checkType(nameOrID string) error {
	switch nameOrID {
	case "", defaultType, typeID(defaultType):
		return nil
	}
	return rest.NotFound("Volume type with name %s could not be found.", nameOrID)
}

// listTypes answers with the volume types of a page; API reference: List all volume types.
func listTypes(r *rest.Request) (rest.Answer, error) {
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
	}.Answer(r, map[string]string{typeID(defaultType): defaultType})
}
