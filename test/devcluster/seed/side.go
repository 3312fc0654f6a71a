package seed

import (
	"context"
	"strings"
)

// Side is what is filled at once: a cluster, or in the management cluster the
// namespace of one hosted control plane.
type Side struct {
	// Values need a Cloud for Cloud to be of use.
	Values    Values
	operators []Operator
	// The folders of manifests: for the side as such, for each operator, and about
	// OpenStack. An operator's name takes the place of an asterisk.
	base, operator, cloud []string
}

// credentialsFolder has all that changes when the credentials do.
const credentialsFolder = "credentials"

// Standalone is a cluster with all its parts.
func Standalone(operators []Operator) Side {
	return Side{
		Values: Values{
			ClusterName: "devcluster", InfrastructureName: infrastructureName, ControlPlaneTopology: "HighlyAvailable",
			Credentials: credentials(operators), CloudConfigs: cloudConfigs(operators),
		},
		operators: operators,
		base:      []string{"cluster", "masters", "workers"},
		operator:  []string{"*/cluster", "operator"},
		cloud:     []string{"cloud-config", credentialsFolder},
	}
}

// Management is a cluster that can host control planes.
func Management() Side {
	return Side{
		Values: Values{ClusterName: "devcluster"},
		base:   []string{"management", "masters", "workers"},
	}
}

// ControlPlane is the namespace of a hosted control plane in the management cluster,
// where the operators run.
func ControlPlane(guest string, operators []Operator) Side {
	namespace := ControlPlaneNamespace(guest)
	hosted := make([]Operator, 0, len(operators))
	for _, o := range operators {
		hosted = append(hosted, o.Hosted(guest))
	}
	return Side{
		Values: Values{
			Guest: guest, ControlPlaneNamespace: namespace, ReleaseVersion: guestRelease,
			Credentials: hostedCredentials(operators, namespace),
		},
		operators: hosted,
		base:      []string{"hosted-cluster"},
		operator:  []string{"hosted-operator", "*/control-plane", "operator"},
		cloud:     []string{"hosted-cloud-config", credentialsFolder},
	}
}

// Guest is a hosted cluster itself.
func Guest(guest string, operators []Operator) Side {
	return Side{
		Values: Values{
			ClusterName: guest, InfrastructureName: guest + "-x7k2p", ControlPlaneTopology: "External",
			Guest: guest, Credentials: credentials(operators),
		},
		operators: operators,
		base:      []string{"cluster", "workers"},
		operator:  []string{"*/cluster"},
		cloud:     []string{credentialsFolder},
	}
}

// ControlPlaneNamespace is where the control plane of a hosted cluster is.
func ControlPlaneNamespace(guest string) string { return "clusters-" + guest }

// Populate creates or replaces all objects, those about OpenStack only if there is
// one.
func (s Side) Populate(ctx context.Context, w Writer, withCloud bool) error {
	if err := s.apply(ctx, w, s.base); err != nil {
		return err
	}
	for _, o := range s.operators {
		one := s
		one.Values.Operator = o
		var folders []string
		for _, folder := range s.operator {
			folders = append(folders, strings.Replace(folder, "*", o.Name, 1))
		}
		if err := one.apply(ctx, w, folders); err != nil {
			return err
		}
	}
	if !withCloud {
		return nil
	}
	return s.apply(ctx, w, s.cloud)
}

// RenewCredentials replaces only the Secrets with credentials: people may have
// changed the rest.
func (s Side) RenewCredentials(ctx context.Context, w Writer) error {
	return apply(ctx, w, credentialsFolder, s.Values)
}

// WriteGuestKubeconfig puts the kubeconfig of the values in the place where the
// operators of a hosted control plane find it.
func (s Side) WriteGuestKubeconfig(ctx context.Context, w Writer) error {
	return apply(ctx, w, "guest-kubeconfig", s.Values)
}

func (s Side) apply(ctx context.Context, w Writer, folders []string) error {
	for _, folder := range folders {
		if err := apply(ctx, w, folder, s.Values); err != nil {
			return err
		}
	}
	return nil
}
