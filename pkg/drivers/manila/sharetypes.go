package manila

import (
	"context"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// The reasons why Manila is unavailable in a cloud that responds.
const (
	reasonNoManila     = "NoManila"
	reasonNoShareTypes = "NoShareTypes"
)

// listShareTypes returns the request of the cloud probe. Manila is available if it offers at least
// one share type, unless the administrator has chosen not to install the driver. A driver that is
// installed already stays, and needs the share types.
func listShareTypes(
	choices *plugin.Choices, list func(context.Context) ([]openstack.Type, error),
) cloudprobe.Request[[]openstack.Type] {
	return func(ctx context.Context) ([]openstack.Type, cloudprobe.Availability, error) {
		types, err := list(ctx)
		config, invalid := choices.Current()
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
		case invalid == nil && !config.Installs():
			return types, cloudprobe.Availability{
				Reason: choice.ReasonNotWanted,
				Message: "The operator does not install the driver, because " + choices.Place() +
					" contains driver: " + choice.Never,
			}, nil
		}
		return types, cloudprobe.Availability{Available: true}, nil
	}
}
