package hook

import (
	"fmt"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	"sigs.k8s.io/yaml"

	configv1 "github.com/openshift/api/config/v1"
	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/config/leaderelection"
	controllerservice "github.com/openshift/library-go/pkg/operator/csi/csidrivercontrollerservicecontroller"
	"github.com/openshift/library-go/pkg/operator/deploymentcontroller"
	"github.com/openshift/library-go/pkg/operator/loglevel"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// Manifest returns what settles the late placeholders of a Deployment. They are replaced as text, so every value is checked before
// it is here: c and the client that the spec is from hand out nothing else. Events of Infrastructure must repeat it.
func Manifest(c *cluster.Cluster) []deploymentcontroller.ManifestHookFunc {
	return []deploymentcontroller.ManifestHookFunc{
		func(spec *opv1.OperatorSpec, manifest []byte) ([]byte, error) { return fill(c, spec, manifest) },
		controllerservice.WithServingInfo(),
		controllerservice.WithLeaderElectionReplacerHook(leaderelection.LeaderElectionDefaulting(configv1.LeaderElection{}, "default", "default")),
		func(_ *opv1.OperatorSpec, manifest []byte) ([]byte, error) { return manifest, settled(manifest) },
	}
}

func fill(c *cluster.Cluster, spec *opv1.OperatorSpec, manifest []byte) ([]byte, error) {
	clusterID, err := c.Config.ClusterID()
	if err != nil {
		return nil, fmt.Errorf("the Deployment stays as it is: %w", err)
	}
	return []byte(strings.NewReplacer(
		"${"+bundle.ClusterID+"}", clusterID,
		"${"+bundle.LogLevel+"}", strconv.Itoa(loglevel.LogLevelToVerbosity(spec.LogLevel)),
	).Replace(string(manifest))), nil
}

// settled returns an error if a placeholder is left or the manifest is no Deployment: library-go panics at one that it cannot decode.
func settled(manifest []byte) error {
	if left := bundle.Placeholders(manifest); len(left) > 0 {
		return fmt.Errorf("the Deployment stays as it is: there is no value for the placeholders %s", strings.Join(left, ", "))
	}
	if err := yaml.UnmarshalStrict(manifest, &appsv1.Deployment{}); err != nil {
		return fmt.Errorf("the Deployment stays as it is: decoding its manifest: %w", err)
	}
	return nil
}
