// Package flavour defines the three kinds of clusters, the sides of a cluster, and the namespace of
// each kind of object. The asset generator calls it to write one folder per flavour; the packages
// of the operators call it to find objects.
package flavour

import "k8s.io/apimachinery/pkg/runtime/schema"

// Flavour is a kind of cluster.
type Flavour string

const (
	// Standalone has one cluster, in which the operator, the driver's controllers and its node
	// plugins run.
	Standalone Flavour = "standalone"
	// HyperShift has a hosted control plane: the operator and the driver's controllers run in the
	// management cluster, the node plugins in the guest cluster.
	HyperShift Flavour = "hypershift"
	// Kubernetes has one cluster, which is not OpenShift.
	Kubernetes Flavour = "kubernetes"
)

// All returns every flavour, in a stable order.
func All() []Flavour {
	return []Flavour{Standalone, HyperShift, Kubernetes}
}

// OnOpenShift returns the flavours of OpenShift, in a stable order.
func OnOpenShift() []Flavour { return []Flavour{Standalone, HyperShift} }

// OpenShift reports whether the clusters are OpenShift.
func (f Flavour) OpenShift() bool { return f != Kubernetes }

// Object returns the kind of the object that configures an operator and contains its conditions.
// own is the kind for its driver in a cluster that is not OpenShift.
func (f Flavour) Object(own string) schema.GroupVersionKind {
	if f.OpenShift() {
		return schema.GroupVersionKind{
			Group: "operator.openshift.io", Version: "v1", Kind: "ClusterCSIDriver",
		}
	}
	return Own(own)
}

// Own returns a kind of our API group.
func Own(kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: "csi.openstack.org", Version: "v1alpha1", Kind: kind}
}

// Of returns the flavour of a cluster, which HasConfig or not, without a hosted control plane.
func Of(hasConfig bool) Flavour {
	return map[bool]Flavour{true: Standalone, false: Kubernetes}[hasConfig]
}

// HasConfig reports whether objects of config.openshift.io describe the cluster: its ID, topology,
// proxy and TLS profile. Otherwise the operator's object and its settings do.
func (f Flavour) HasConfig() bool { return f != Kubernetes }

// ReportsCompletion reports whether the status of the operator's object says which generation is
// completed, and what tools that wait should do. Other operators read that of a ClusterCSIDriver.
func (f Flavour) ReportsCompletion() bool { return f == Kubernetes }

// NamesSidecars reports whether the manifests of an operator name the images of the sidecars.
// Elsewhere these are from the release of OpenShift.
func (f Flavour) NamesSidecars() bool { return f == Kubernetes }

// ExtraGrants returns the folder of the manifests that grant an operator what those of its release
// need not contain, because another operator applies them; "" if there is none.
func (f Flavour) ExtraGrants() string {
	if f == Standalone {
		return "assets/csi-addons/openshift"
	}
	return ""
}

// Hosted reports whether the two sides are different clusters.
func (f Flavour) Hosted() bool { return f == HyperShift }

// Side is the cluster that an object lives in. Without a hosted control plane both sides are one.
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
