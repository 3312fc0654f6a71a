package sharedfilesystems

import (
	"fmt"
	"slices"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// Type is a share type.
type Type struct {
	Name string
	// Private share types exist, but Manila does not list them for the user of the credentials.
	Private bool
	// ShareServers is true for a type whose shares need a share network.
	ShareServers bool
}

func (t Type) id() string { return state.NamedID("share type", t.Name) }

// Types returns all share types, in the order in which they were added.
func (s *Service) Types() []Type {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	return slices.Clone(s.types)
}

// AddType creates a share type. It fails if there is one with the same name.
func (s *Service) AddType(added Type) error {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	if slices.ContainsFunc(s.types, func(t Type) bool { return t.Name == added.Name }) {
		return fmt.Errorf("share type %q exists already", added.Name)
	}
	s.types = append(s.types, added)
	return nil
}

// RemoveType deletes the share type of that name.
func (s *Service) RemoveType(name string) error {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	i := slices.IndexFunc(s.types, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("share type %q does not exist", name)
	}
	s.types = slices.Delete(s.types, i, i+1)
	return nil
}

// ReverseTypes reverses the order in which share types are listed. Manila promises none.
func (s *Service) ReverseTypes() {
	s.config.Worker.Lock()
	defer s.config.Worker.Unlock()
	s.reversed = !s.reversed
}

// findType returns a share type by name or ID. Manila's default share type is here the first one.
func (s *Service) findType(nameOrID string) (Type, bool) {
	if nameOrID == "" && len(s.types) > 0 {
		return s.types[0], true
	}
	i := slices.IndexFunc(s.types,
		func(t Type) bool { return t.Name == nameOrID || t.id() == nameOrID })
	if i < 0 {
		return Type{}, false
	}
	return s.types[i], true
}

func (s *Service) listTypes(r *rest.Request) (rest.Answer, error) {
	types := slices.Clone(s.types)
	if s.reversed {
		slices.Reverse(types)
	}
	list := []any{}
	for _, shareType := range types {
		if !shareType.Private {
			list = append(list, s.describeType(r, shareType))
		}
	}
	return rest.Answer{Content: map[string]any{"share_types": list, "volume_types": list}}, nil
}

// describeType returns a share type with the fields of the microversion; API reference: List share
// types. All share types have the same other extra specs.
func (s *Service) describeType(r *rest.Request, shareType Type) map[string]any {
	servers := "False"
	if shareType.ShareServers {
		servers = "True"
	}
	specs := map[string]string{
		"driver_handles_share_servers": servers, "snapshot_support": "True",
		"create_share_from_snapshot_support": "True",
	}
	description := map[string]any{
		"id": shareType.id(), "name": shareType.Name, "extra_specs": specs,
		"required_extra_specs": map[string]string{"driver_handles_share_servers": servers},
	}
	public := "os-share-type-access:is_public"
	if r.Version.AtLeast(7) {
		public = "share_type_access:is_public"
	}
	description[public] = !shareType.Private
	if r.Version.AtLeast(24) {
		specs["revert_to_snapshot_support"], specs["mount_snapshot_support"] = "False", "False"
	}
	if r.Version.AtLeast(41) {
		description["description"] = nil
	}
	if r.Version.AtLeast(46) {
		byDefault, _ := s.findType("")
		description["is_default"] = shareType.Name == byDefault.Name
	}
	return description
}
