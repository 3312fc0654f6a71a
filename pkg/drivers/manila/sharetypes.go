package manila

import (
	"context"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// The reasons why Manila is unavailable in a cloud that responds.
const (
	reasonNoManila     = "NoManila"
	reasonNoShareTypes = "NoShareTypes"
	// reasonNever means that the administrator does not want the driver.
	reasonNever = "NotWanted"
)

// shareTypes returns the function that lists the share types with the accepted login.
func shareTypes(
	credentials *credential.Watcher,
) func(context.Context) ([]openstack.Type, error) {
	return func(ctx context.Context) ([]openstack.Type, error) {
		client, err := credentials.Client(ctx)
		if err != nil {
			return nil, err
		}
		return client.ShareTypes(ctx)
	}
}

// listShareTypes returns the request of the cloud probe. Manila is available if it offers at least
// one share type.
func listShareTypes(
	list func(context.Context) ([]openstack.Type, error),
) cloudprobe.Request[[]openstack.Type] {
	return func(ctx context.Context) ([]openstack.Type, cloudprobe.Availability, error) {
		types, err := list(ctx)
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

// ifWanted returns the request, whose result is unavailable if the administrator has chosen not to
// install the driver. A driver that is installed already stays, and needs the share types.
func ifWanted(
	choices *plugin.Choices, request cloudprobe.Request[[]openstack.Type],
) cloudprobe.Request[[]openstack.Type] {
	return func(ctx context.Context) ([]openstack.Type, cloudprobe.Availability, error) {
		types, availability, err := request(ctx)
		config, invalid := choices.Current()
		if availability.Available && invalid == nil && !config.Installs() {
			availability = cloudprobe.Availability{
				Reason: reasonNever,
				Message: "The operator does not install the driver, because " + choices.Place() +
					" contains driver: " + choice.Never,
			}
		}
		return types, availability, err
	}
}
