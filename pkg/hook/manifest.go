package hook

import (
	"bytes"
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

// Manifest returns the hooks that fill the late placeholders of a Deployment. They replace text, so
// all values must be valid: c and cluster.Workloads return only checked values. The durations of
// leader elections are those of OpenShift. Events of Infrastructure must repeat the hooks.
func Manifest(c *cluster.Cluster) []deploymentcontroller.ManifestHookFunc {
	return append(fills(c), func(_ *opv1.OperatorSpec, manifest []byte) ([]byte, error) {
		_, err := decode[appsv1.Deployment]("Deployment", manifest)
		return manifest, err
	})
}

func fills(c *cluster.Cluster) []deploymentcontroller.ManifestHookFunc {
	election := leaderelection.LeaderElectionDefaulting(
		configv1.LeaderElection{}, "default", "default")
	return []deploymentcontroller.ManifestHookFunc{
		func(spec *opv1.OperatorSpec, manifest []byte) ([]byte, error) { return fill(c, spec, manifest) },
		controllerservice.WithServingInfo(),
		controllerservice.WithLeaderElectionReplacerHook(election),
	}
}

// Built returns the workload of a manifest with changes, as library-go's controllers build it.
func Built[T any, F ~func(*opv1.OperatorSpec, *T) error](
	c *cluster.Cluster, spec *opv1.OperatorSpec, manifest []byte, changes []F,
) (*T, error) {
	for _, change := range fills(c) {
		var err error
		if manifest, err = change(spec, manifest); err != nil {
			return nil, err
		}
	}
	workload, err := decode[T]("workload", manifest)
	for i := 0; err == nil && i < len(changes); i++ {
		err = changes[i](spec, &workload)
	}
	return &workload, err
}

// fill fills the placeholders of the log level and, if there are any, those of the cluster ID.
func fill(c *cluster.Cluster, spec *opv1.OperatorSpec, manifest []byte) ([]byte, error) {
	verbosity := strconv.Itoa(loglevel.LogLevelToVerbosity(spec.LogLevel))
	manifest = bytes.ReplaceAll(manifest, []byte("${"+bundle.LogLevel+"}"), []byte(verbosity))
	placeholder := []byte("${" + bundle.ClusterID + "}")
	if !bytes.Contains(manifest, placeholder) {
		return manifest, nil
	}
	clusterID, err := c.Config.ClusterID()
	if err != nil {
		return nil, fmt.Errorf("the Deployment stays unchanged: %w", err)
	}
	return bytes.ReplaceAll(manifest, placeholder, []byte(clusterID)), nil
}

// decode decodes the manifest of a kind of workload. It returns an error if a placeholder is left
// or the manifest is of another kind. library-go would panic.
func decode[T any](kind string, manifest []byte) (workload T, err error) {
	if left := bundle.Placeholders(manifest); len(left) > 0 {
		return workload, fmt.Errorf("the %s stays unchanged: there is no value for the placeholders %s",
			kind, strings.Join(left, ", "))
	}
	if err := yaml.UnmarshalStrict(manifest, &workload); err != nil {
		return workload, fmt.Errorf("the %s stays unchanged: decoding its manifest: %w", kind, err)
	}
	return workload, nil
}
