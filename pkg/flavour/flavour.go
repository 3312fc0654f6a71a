// Package flavour defines the two ways to run a cluster and what follows from them: which sides
// there are and which namespace everything is in. Everything above calls it: the asset generator
// writes one folder per flavour, and an operator loads one of them.
package flavour

import "fmt"

// Flavour is a way to run a cluster.
type Flavour string

const (
	// Standalone has one cluster, in which the operator, the driver's controllers and its node
	// plugins run.
	Standalone Flavour = "standalone"
	// HyperShift has a hosted control plane: the operator and the driver's controllers run in the
	// management cluster, the node plugins in the guest cluster.
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

// UnmarshalText makes strict decoders reject an unknown flavour.
func (f *Flavour) UnmarshalText(text []byte) error {
	parsed, err := Parse(string(text))
	if err != nil {
		return err
	}
	*f = parsed
	return nil
}
