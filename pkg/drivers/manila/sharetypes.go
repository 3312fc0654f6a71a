package manila

import (
	"context"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// The reasons why Manila is unavailable in a cloud that responds.
const (
	reasonNoManila     = "NoManila"
	reasonNoShareTypes = "NoShareTypes"
)

// shareTypeLister is the part of openstack.Client that the cloud probe uses.
type shareTypeLister interface {
	ShareTypes(context.Context) ([]string, error)
}

// listShareTypes returns the request of the cloud probe. Manila is available if it offers at least
// one share type.
func listShareTypes(cloud shareTypeLister) cloudprobe.Request[[]string] {
	return func(ctx context.Context) ([]string, cloudprobe.Availability, error) {
		types, err := cloud.ShareTypes(ctx)
		switch {
		case err != nil && openstack.ReasonOf(err) == openstack.NotOffered:
			return nil, cloudprobe.Availability{Reason: reasonNoManila, Message: err.Error()}, nil
		case err != nil:
			return nil, cloudprobe.Availability{}, err
		case len(types) == 0:
			return nil, cloudprobe.Availability{
				Reason: reasonNoShareTypes,
				Message: "Manila offers no share types to this project. Ask the cloud's administrator " +
					"to create one, or to make one public; the operator detects the change automatically",
			}, nil
		}
		return types, cloudprobe.Availability{Available: true}, nil
	}
}
