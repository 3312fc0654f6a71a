//go:build linux

package sharedfilesystems

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/test/openstack/rest"
	"github.com/openstack-csi/csi-operator/test/openstack/state"
)

// Type is a share type.
type Type struct {
	Name string
	// Private share types exist, but Manila does not list them for the user of the credentials.
	Private bool
	// Specs are extra specs beyond the default ones: driver_handles_share_servers is False,
	// snapshot_support and create_share_from_snapshot_support are True.
	Specs map[string]string
}

// The extra specs that the simulator uses.
const (
	handlesServers    = "driver_handles_share_servers"
	supportsSnapshots = "snapshot_support"
	supportsCreation  = "create_share_from_snapshot_support"
	supportsRevert    = "revert_to_snapshot_support"
	supportsMount     = "mount_snapshot_support"
)

// Order is the order in which share types are listed. Manila promises none. The zero value is the
// order in which they were added.
type Order string

// Other orders.
const (
	Reversed Order = "reversed"
	// Shuffled is a new random order for each list.
	Shuffled Order = "shuffled"
)

// specs returns all extra specs of a type.
func (t Type) specs() map[string]string {
	specs := map[string]string{
		handlesServers: "False", supportsSnapshots: "True", supportsCreation: "True",
	}
	maps.Copy(specs, t.Specs)
	return specs
}

// has returns whether an extra spec is true.
func (t Type) has(spec string) bool {
	return strings.EqualFold(strings.TrimPrefix(t.specs()[spec], "<is> "), "true")
}

func (t Type) id() string { return state.NamedID("share type", t.Name) }

// Types returns all share types, in the order in which they were added.
func (s *Service) Types() []Type {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.types)
}

// AddType creates a share type. It fails if there is one with the same name.
func (s *Service) AddType(added Type) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if slices.ContainsFunc(s.types, func(t Type) bool { return t.Name == added.Name }) {
		return fmt.Errorf("share type %q exists already", added.Name)
	}
	s.types = append(s.types, added)
	return nil
}

// RemoveType deletes the share type of that name.
func (s *Service) RemoveType(name string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.types, func(t Type) bool { return t.Name == name })
	if i < 0 {
		return fmt.Errorf("share type %q does not exist", name)
	}
	s.types = slices.Delete(s.types, i, i+1)
	return nil
}

// SetTypeOrder changes the order in which share types are listed.
func (s *Service) SetTypeOrder(order Order) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.order = order
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

// listTypes answers a request for the share types.
func (s *Service) listTypes(r *rest.Request) (rest.Answer, error) {
	types := s.Types()
	s.mu.Lock()
	order := s.order
	s.mu.Unlock()
	switch order {
	case Reversed:
		slices.Reverse(types)
	case Shuffled:
		rand.Shuffle(len(types), func(i, j int) { types[i], types[j] = types[j], types[i] })
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
// types.
func (s *Service) describeType(r *rest.Request, shareType Type) map[string]any {
	specs := shareType.specs()
	description := map[string]any{
		"id": shareType.id(), "name": shareType.Name,
		"required_extra_specs": map[string]string{handlesServers: specs[handlesServers]},
	}
	public := "os-share-type-access:is_public"
	if r.Version.AtLeast(7) {
		public = "share_type_access:is_public"
	}
	description[public] = !shareType.Private
	if r.Version.AtLeast(24) {
		for _, spec := range []string{supportsRevert, supportsMount} {
			if specs[spec] == "" {
				specs[spec] = "False"
			}
		}
	}
	description["extra_specs"] = specs
	if r.Version.AtLeast(41) {
		description["description"] = nil
	}
	if r.Version.AtLeast(46) {
		byDefault, _ := s.findType("")
		description["is_default"] = shareType.Name == byDefault.Name
	}
	return description
}

// showType answers with a share type by ID, or with the default type for the ID default.
func (s *Service) showType(r *rest.Request) (rest.Answer, error) {
	shareType, err := s.typeOf(r)
	if err != nil {
		return rest.Answer{}, err
	}
	description := s.describeType(r, shareType)
	return rest.Answer{
		Content: map[string]any{"share_type": description, "volume_type": description},
	}, nil
}

// denyToUsers answers requests that only an administrator may send.
func denyToUsers(*rest.Request) (rest.Answer, error) {
	return rest.Answer{}, rest.Forbidden("Access was denied to this resource.")
}

func (s *Service) typeOf(r *rest.Request) (Type, error) {
	id := r.PathValue("id")
	if id == "default" {
		id = ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	shareType, found := s.findType(id)
	if !found {
		return Type{}, rest.NotFound("Share type not found.")
	}
	return shareType, nil
}
