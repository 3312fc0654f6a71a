// Package flavour names the two ways a cluster is run, for which operands differ. The asset generator writes one folder
// per flavour and the operator loads one of them; everything between speaks of them through this type.
package flavour

import "fmt"

// Flavour is a way to run a cluster.
type Flavour string

const (
	// Standalone has one cluster: the operator, the driver's controllers and its node plugins all live in it.
	Standalone Flavour = "standalone"
	// HyperShift has a hosted control plane: operator and driver controllers live in the management cluster, node
	// plugins in the guest cluster.
	HyperShift Flavour = "hypershift"
)

// All returns every flavour, in a stable order.
func All() []Flavour {
	return []Flavour{Standalone, HyperShift}
}

// Parse returns the flavour called name.
func Parse(name string) (Flavour, error) {
	for _, known := range All() {
		if name == string(known) {
			return known, nil
		}
	}
	return "", fmt.Errorf("unknown flavour %q: want one of %q", name, All())
}

// UnmarshalText lets strict decoders refuse a flavour which does not exist.
func (f *Flavour) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*f = parsed
	return nil
}
