package flavour

// Side is the cluster that an object lives in. In the standalone flavour both sides are one
// cluster.
type Side string

const (
	// ControlPlane is where the driver's controllers run: on HyperShift the management cluster.
	ControlPlane Side = "controlPlane"
	// Guest is where pods use the volumes.
	Guest Side = "guest"
)

// Sides returns every side, in a stable order.
func Sides() []Side {
	return []Side{ControlPlane, Guest}
}
