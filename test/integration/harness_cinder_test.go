//go:build integration

package integration

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// Names of Cinder's objects, which must not change between releases, and conditions.
const (
	cinderController  = "openstack-cinder-csi-driver-controller"
	cinderNode        = "openstack-cinder-csi-driver-node"
	cinderCredentials = "openstack-cloud-credentials"
	cinderCertificate = cinderController + "-metrics-serving-cert"
	cinderTrustedCA   = "openstack-cinder-csi-driver-trusted-ca-bundle"
	cinderUserConfig  = "cinder-csi-config"
	standardClass     = "standard-csi"

	cloudConf   = "cloud-conf"
	confKey     = "cloud.conf"
	topologyKey = "enable_topology"

	cinderReachable   = "CinderCloudReachable"
	cinderDegraded    = "OpenStackCinderConfigSyncDegraded"
	cinderProgressing = "OpenStackCinderConfigSyncProgressing"
	cinderConfigValid = "CinderUserConfigValid"
)

// generatedConf is the cloud.conf for a cloud without a CA and without an administrator's settings.
const generatedConf = "[Global]\nuse-clouds = true\n" +
	"clouds-file = /etc/kubernetes/secret/clouds.yaml\ncloud = openstack\n"

// cinderEnv is the environment of Cinder's operator.
type cinderEnv struct{ *env }

// newCinder is newEnv for Cinder's operator.
func newCinder(t *testing.T, o options) *cinderEnv {
	t.Helper()
	o.Subject = cinder()
	return &cinderEnv{newEnv(t, o)}
}

type clusterNamespace struct {
	cluster   *cluster
	namespace string
}

// driverNamespaces returns the namespaces of the driver's node plugins and of its controllers.
func (e *env) driverNamespaces() []clusterNamespace {
	return slices.Compact([]clusterNamespace{
		{e.guest, e.subject.OperandNamespace}, {e.management, e.subject.controllerNamespace},
	})
}

// cloudConf returns the data of cloud-conf, which must be the same in both clusters.
func (e *env) cloudConf() (map[string]string, error) {
	var data map[string]string
	for i, n := range e.driverNamespaces() {
		config, err := n.cluster.kube.CoreV1().ConfigMaps(n.namespace).
			Get(e.ctx(), cloudConf, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if diff := cmp.Diff(data, config.Data); i > 0 && diff != "" {
			return nil, fmt.Errorf("%s differs between the clusters (-guest +management):\n%s",
				cloudConf, diff)
		}
		data = config.Data
	}
	return data, nil
}

// userConfigNamespace returns the namespace of the management cluster in which the owners of the
// control plane configure the driver.
func (e *env) userConfigNamespace() string {
	if e.isHosted() {
		return hostedNamespace
	}
	return openshiftConfig
}

// putUserConfig writes the ConfigMap that configures the driver. An empty one has the effect of
// none at once.
func (e *env) putUserConfig(data map[string]string) {
	e.t.Helper()
	namespace := e.userConfigNamespace()
	e.must(e.management.putConfigMap(e.ctx(), namespace, cinderUserConfig, data))
}

// hasCloudConf returns nil if cloud-conf contains exactly this data.
func (e *cinderEnv) hasCloudConf(want map[string]string) error {
	got, err := e.cloudConf()
	if err != nil {
		return err
	}
	return checkEqual(want, got)
}

// hasConf returns nil if cloud.conf is the generated one, followed by more.
func (e *env) hasConf(more string) error {
	got, err := e.cloudConf()
	if err != nil {
		return err
	}
	return checkEqual(generatedConf+more, got[confKey])
}

// topology returns enable_topology of cloud-conf.
func (e *cinderEnv) topology() string {
	e.t.Helper()
	conf, err := e.cloudConf()
	e.must(err)
	return conf[topologyKey]
}

// hasTopology returns nil if cloud-conf contains this enable_topology.
func (e *cinderEnv) hasTopology(want string) error {
	got, err := e.cloudConf()
	if err == nil && got[topologyKey] != want {
		err = fmt.Errorf("%s is %q, want %q", topologyKey, got[topologyKey], want)
	}
	return err
}

// triggerZoneProbe makes the operator probe the zones: it changes an annotation of the ConfigMap
// that configures the driver, and creates it if it is missing.
func (e *cinderEnv) triggerZoneProbe() {
	e.t.Helper()
	text := fmt.Sprintf(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": %q,
		"annotations": {"touched": "%d"}}}`, cinderUserConfig, time.Now().UnixNano())
	_, err := e.management.kube.CoreV1().ConfigMaps(e.userConfigNamespace()).Patch(e.ctx(),
		cinderUserConfig, types.ApplyPatchType, []byte(text),
		metav1.PatchOptions{FieldManager: administrator})
	e.must(err)
}

// cloudConfigName returns the name of the ConfigMap about the cloud.
func (e *env) cloudConfigName() string {
	if e.isHosted() {
		return hostedCloudCA
	}
	return cloudProviderConfig
}

// setZones sets the availability zones of a service. A leading ! makes a zone unavailable.
func (e *env) setZones(service simulator.Service, names ...string) {
	e.t.Helper()
	zones := []simulator.Zone{}
	for _, name := range names {
		name, unavailable := strings.CutPrefix(name, "!")
		zones = append(zones, simulator.Zone{Name: name, Unavailable: unavailable})
	}
	e.must(e.cloud.SetZones(service, zones...))
}

// hasOnlyDegraded returns nil if exactly these *Degraded conditions are True.
func (e *env) hasOnlyDegraded(types ...string) error {
	found, err := e.degraded()
	if err != nil {
		return err
	}
	var got []string
	for _, c := range found {
		got = append(got, c.Type)
	}
	if !slices.Equal(got, types) {
		return fmt.Errorf("degraded are %v, want %v", got, types)
	}
	return nil
}
