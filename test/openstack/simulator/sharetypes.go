package simulator

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"unicode/utf8"
)

// ShareType is a share type of Manila.
type ShareType struct {
	// ID is given by the simulator unless set.
	ID string `json:"id,omitempty"`
	// Name is any text of 1 to 255 characters that no other share type has.
	Name string `json:"name"`
	// Description is shown since microversion 2.41.
	Description string `json:"description,omitempty"`
	// Private share types exist but are not shown to the one user.
	Private bool `json:"private,omitempty"`
	// Default marks the type that Manila uses by default. The last type with this mark has it.
	Default bool `json:"default,omitempty"`
	// ExtraSpecs beside driver_handles_share_servers, which is False unless given.
	ExtraSpecs map[string]string `json:"extraSpecs,omitempty"`
}

// Order is the order in which share types are listed. Manila promises none.
type Order string

// The orders.
const (
	AsAdded  Order = "added"
	Reversed Order = "reversed"
	// Shuffled is another random order on each listing.
	Shuffled Order = "shuffled"
)

const (
	specServers     = "driver_handles_share_servers"
	longestTypeName = 255
)

// manila is the state of the share service.
type manila struct {
	highest microversion

	mu    sync.Mutex
	types []ShareType
	order Order
}

func newManila(config Config) (*manila, error) {
	highest, err := parseMicroversion(config.ManilaMaxVersion)
	if err != nil {
		return nil, err
	}
	m := &manila{highest: highest, order: AsAdded}
	for _, shareType := range config.ShareTypes {
		if _, err := m.add(shareType); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// add creates a share type.
func (m *manila) add(shareType ShareType) (ShareType, error) {
	name := shareType.Name
	if !utf8.ValidString(name) || name == "" || utf8.RuneCountInString(name) > longestTypeName {
		return ShareType{}, fmt.Errorf("share type name %q: want 1 to %d characters", name,
			longestTypeName)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, other := range m.types {
		if other.Name == name || shareType.ID != "" && other.ID == shareType.ID {
			return ShareType{}, fmt.Errorf("share type %q exists already", name)
		}
	}
	if shareType.ID == "" {
		shareType.ID = newUUID()
	}
	if shareType.Default {
		for i := range m.types {
			m.types[i].Default = false
		}
	}
	shareType.ExtraSpecs = maps.Clone(shareType.ExtraSpecs)
	m.types = append(m.types, shareType)
	return shareType, nil
}

// remove deletes a share type by name.
func (m *manila) remove(name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	index := slices.IndexFunc(m.types, func(t ShareType) bool { return t.Name == name })
	if index < 0 {
		return fmt.Errorf("share type %q does not exist", name)
	}
	m.types = slices.Delete(m.types, index, index+1)
	return nil
}

// setOrder changes the order of listings.
func (m *manila) setOrder(order Order) error {
	if !slices.Contains([]Order{AsAdded, Reversed, Shuffled}, order) {
		return fmt.Errorf("unknown order %q, want %s, %s or %s", order, AsAdded, Reversed, Shuffled)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.order = order
	return nil
}

// all lists all share types in the order of the moment.
func (m *manila) all() []ShareType {
	m.mu.Lock()
	defer m.mu.Unlock()
	types := append([]ShareType{}, m.types...)
	switch m.order {
	case Reversed:
		slices.Reverse(types)
	case Shuffled:
		rand.Shuffle(len(types), func(i, j int) { types[i], types[j] = types[j], types[i] })
	}
	return types
}

// visible lists the share types that the one user sees.
func (m *manila) visible() []ShareType {
	return slices.DeleteFunc(m.all(), func(t ShareType) bool { return t.Private })
}

// find returns a visible share type by ID, or the default one by the word "default".
func (m *manila) find(id string) (ShareType, bool) {
	types := m.visible()
	index := slices.IndexFunc(types,
		func(t ShareType) bool { return t.ID == id || id == "default" && t.Default })
	if index < 0 {
		return ShareType{}, false
	}
	return types[index], true
}

// specs are the extra specs with the required one.
func (t ShareType) specs() map[string]string {
	specs := map[string]string{specServers: "False"}
	maps.Copy(specs, t.ExtraSpecs)
	return specs
}

// view is the share type as a microversion shows it.
func (t ShareType) view(version microversion) map[string]any {
	view := map[string]any{
		"id":                   t.ID,
		"name":                 t.Name,
		"extra_specs":          t.specs(),
		"required_extra_specs": map[string]string{specServers: t.specs()[specServers]},
	}
	public := "os-share-type-access:is_public"
	if version.since(7) {
		public = "share_type_access:is_public"
	}
	view[public] = !t.Private
	if version.since(41) {
		view["description"] = t.Description
	}
	if version.since(46) {
		view["is_default"] = t.Default
	}
	return view
}
