package bundle

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// imageSuffix ends the names of the placeholders of images, and of the environment variables.
const imageSuffix = "_IMAGE"

// ImageNames returns the placeholders of images in the bundles, by side.
func ImageNames(bundles []*Bundle) map[flavour.Side]sets.Set[string] {
	names := map[flavour.Side]sets.Set[string]{}
	for _, side := range flavour.Sides() {
		names[side] = sets.New[string]()
	}
	for _, b := range bundles {
		for _, asset := range b.Assets() {
			for _, name := range Placeholders(asset.Data) {
				if strings.HasSuffix(name, imageSuffix) {
					names[asset.Side].Insert(name)
				}
			}
		}
	}
	return names
}

// ImageVariables returns the environment variables of a placeholder, in order of preference.
//
// On HyperShift some variables contain images of the guest cluster's release, for its nodes. Pods
// in the management cluster use the release of the control plane, which has variables of its own.
// cluster-storage-operator sets two of them; the image of the guest cluster is the fallback.
func ImageVariables(f flavour.Flavour, side flavour.Side, placeholder string) []string {
	if f != flavour.HyperShift || side != flavour.ControlPlane {
		return []string{placeholder}
	}
	own := strings.TrimSuffix(placeholder, imageSuffix) + "_CONTROL_PLANE" + imageSuffix
	switch placeholder {
	case DriverImage, LivenessProbeImage, NFSDriverImage:
		return []string{own, placeholder}
	}
	return []string{placeholder}
}

// AllImageVariables returns the variables of each image in the bundles.
func AllImageVariables(f flavour.Flavour, bundles []*Bundle) [][]string {
	var all [][]string
	names := ImageNames(bundles)
	for _, side := range flavour.Sides() {
		for _, name := range sets.List(names[side]) {
			variables := ImageVariables(f, side, name)
			if !slices.ContainsFunc(all, func(known []string) bool { return known[0] == variables[0] }) {
				all = append(all, variables)
			}
		}
	}
	return all
}
