package manila

import (
	"context"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// The reasons for which Manila is disabled although the cloud answers.
const (
	reasonNoManila     = "NoManila"
	reasonNoShareTypes = "NoShareTypes"
)

// shareTypeLister asks the cloud.
type shareTypeLister interface {
	ShareTypes(context.Context) ([]string, error)
}

// gate opens when the cloud offers Manila with at least one share type. The one request of a poll answers that and brings the
// share types for the StorageClasses.
type gate struct {
	cloud shareTypeLister
	// listed hears of each list that the cloud gives.
	listed func(types []string)
}

func (g *gate) Name() string { return service }

func (g *gate) Check(ctx context.Context) (plugin.Verdict, error) {
	types, err := g.cloud.ShareTypes(ctx)
	switch {
	case err == nil && len(types) == 0:
		g.listed(nil)
		return plugin.Verdict{Reason: reasonNoShareTypes, Message: "Manila offers no share types to this project. " +
			"Ask the cloud's administrator to create one, or to make one public; the operator detects the change automatically"}, nil
	case err == nil:
		g.listed(types)
		return plugin.Verdict{Open: true}, nil
	case openstack.ReasonOf(err) == openstack.NotOffered:
		return plugin.Verdict{Reason: reasonNoManila, Message: err.Error()}, nil
	}
	return plugin.Verdict{}, &plugin.UnknownError{Reason: string(openstack.ReasonOf(err)), Message: err.Error()}
}
