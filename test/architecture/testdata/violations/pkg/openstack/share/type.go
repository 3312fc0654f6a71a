package share

// Type is a type.
type Type struct{}

// String makes it printable.
func (Type) String() string { return "" }
