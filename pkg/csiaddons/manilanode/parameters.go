package manilanode

import (
	"maps"
	"slices"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// CheckParameters refuses parameters that have no meaning. Some drivers read the ID of a storage
// cluster, and the controller treats NetworkFences with different IDs as independent. But here all
// NetworkFences change the same shares, so that the end of one would end the other.
func CheckParameters(given map[string]string) error {
	for _, key := range slices.Sorted(maps.Keys(given)) {
		if key != v1alpha1.StorageNetworksParameter {
			return status.Errorf(codes.InvalidArgument, "the driver has no parameter %.63q, only %s. "+
				"Delete the NetworkFenceClass, and create it with the same name and without this parameter. "+
				"If the NetworkFence itself contains the parameter, replace it by one with a "+
				"NetworkFenceClass", key, v1alpha1.StorageNetworksParameter)
		}
	}
	return nil
}
