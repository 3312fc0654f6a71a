//go:build integration

package integration

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// Names that must not change from release to release (contract.md 3.7), and conditions.
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

// generatedConf is the cloud.conf of a cloud without a CA, for an administrator who asks for nothing.
const generatedConf = "[Global]\nuse-clouds = true\nclouds-file = /etc/kubernetes/secret/clouds.yaml\ncloud = openstack\n"

// newCinder is newEnv for the Cinder operator.
func newCinder(t *testing.T, o options) *env {
	t.Helper()
	o.Subject = cinder()
	return newEnv(t, o)
}

// spot is a namespace of a cluster.
type spot struct {
	side      *side
	namespace string
}

// confSpots are where the driver finds its configuration: beside its controllers and beside its node plugins.
func (e *env) confSpots() []spot {
	return slices.Compact([]spot{{e.side, e.subject.operandNamespace}, {e.management, e.subject.controllerNamespace}})
}

// cloudConf returns what the driver reads, which must be the same wherever it is.
func (e *env) cloudConf() (map[string]string, error) {
	var data map[string]string
	for i, s := range e.confSpots() {
		config, err := s.side.kube.CoreV1().ConfigMaps(s.namespace).Get(e.ctx(), cloudConf, metav1.GetOptions{})
		if err != nil {
			return nil, err
		}
		if diff := cmp.Diff(data, config.Data); i > 0 && diff != "" {
			return nil, fmt.Errorf("%s is not the same in both clusters (-guest +management):\n%s", cloudConf, diff)
		}
		data = config.Data
	}
	return data, nil
}

// userSpot is where those who own the control plane configure the driver.
func (e *env) userSpot() spot {
	if e.flavour == flavour.HyperShift {
		return spot{e.management, hostedNamespace}
	}
	return spot{e.side, openshiftConfig}
}

// putUserConfig writes the ConfigMap with which the driver is configured.
func (e *env) putUserConfig(data map[string]string) {
	e.t.Helper()
	s := e.userSpot()
	e.must(s.side.putConfigMap(e.ctx(), s.namespace, cinderUserConfig, data))
}

// putCloudCA writes the CA into the ConfigMap about the cloud; "" deletes that.
func (e *env) putCloudCA(ca string) {
	e.t.Helper()
	s, name := e.userSpot(), cloudProviderConfig
	if e.flavour == flavour.HyperShift {
		name = hostedCloudCA
	}
	if ca == "" {
		e.must(s.side.kube.CoreV1().ConfigMaps(s.namespace).Delete(e.ctx(), name, metav1.DeleteOptions{}))
		return
	}
	e.must(s.side.putConfigMap(e.ctx(), s.namespace, name, map[string]string{caKeyOfCloudProvider: ca}))
}

// hasCloudConf returns nil if the driver's configuration is exactly this.
func (e *env) hasCloudConf(want map[string]string) error {
	got, err := e.cloudConf()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(want, got); diff != "" {
		return fmt.Errorf("%s differs (-want +got):\n%s", cloudConf, diff)
	}
	return nil
}

// hasConf returns nil if cloud.conf is the generated one, followed by this.
func (e *env) hasConf(more string) error {
	got, err := e.cloudConf()
	if err != nil {
		return err
	}
	if diff := cmp.Diff(generatedConf+more, got[confKey]); diff != "" {
		return fmt.Errorf("%s differs (-want +got):\n%s", confKey, diff)
	}
	return nil
}

// topology is what the driver is told.
func (e *env) topology() string {
	e.t.Helper()
	conf, err := e.cloudConf()
	e.must(err)
	return conf[topologyKey]
}

// hasTopology returns nil if the driver is told so.
func (e *env) hasTopology(want string) error {
	got, err := e.cloudConf()
	if err == nil && got[topologyKey] != want {
		err = fmt.Errorf("%s is %q, want %q", topologyKey, got[topologyKey], want)
	}
	return err
}

// lookAgain has the operator look at the zones: its credentials are written, with the content that they have.
func (e *env) lookAgain() {
	e.t.Helper()
	e.patchBeside(secrets(), cinderCredentials, fmt.Sprintf(`{"metadata":{"annotations":{"touched":"%d"}}}`, time.Now().UnixNano()))
}

// looks has the operator look at the zones, so many times at least.
func (e *env) looks(n int) {
	e.t.Helper()
	for range n {
		before := e.counters().Requests[simulator.Compute]
		e.lookAgain()
		e.eventually(soon, func() error {
			if e.counters().Requests[simulator.Compute] == before {
				return errors.New("the operator has not asked for the zones again")
			}
			return nil
		})
	}
}

// zone is an availability zone; a leading ! makes it unavailable.
func zone(name string) simulator.Zone {
	name, unavailable := strings.CutPrefix(name, "!")
	return simulator.Zone{Name: name, Unavailable: unavailable}
}

func (e *env) setZones(service simulator.Service, names ...string) {
	e.t.Helper()
	zones := []simulator.Zone{}
	for _, name := range names {
		zones = append(zones, zone(name))
	}
	e.must(e.cloud.SetZones(e.ctx(), service, zones...))
}

// apart has the zones differ such that topology is impossible.
func (e *env) apart() {
	e.t.Helper()
	e.setZones(simulator.Compute, "az1")
	e.setZones(simulator.Volume, "nova")
}

// untouched is what must not change when the cloud fails.
type untouched struct {
	workloads map[string]workload
	conf      map[string]string
}

func (e *env) untouched() untouched {
	e.t.Helper()
	conf, err := e.cloudConf()
	e.must(err)
	return untouched{e.workloads(), conf}
}

// isAs returns nil if nothing has changed since before.
func (e *env) isAs(before untouched) error {
	if diff := cmp.Diff(before.conf, e.untouched().conf); diff != "" {
		return fmt.Errorf("%s changed:\n%s", cloudConf, diff)
	}
	if diff := cmp.Diff(before.workloads, e.workloads()); diff != "" {
		return fmt.Errorf("the workloads changed:\n%s", diff)
	}
	return nil
}

// hasOnly returns nil if these *Degraded conditions, and no others, are True.
func (e *env) hasOnly(degraded ...string) error {
	found, err := e.ofSuffix(opv1.OperatorStatusTypeDegraded)
	if err != nil {
		return err
	}
	var got []string
	for _, c := range found {
		if c.Status == opv1.ConditionTrue {
			got = append(got, c.Type)
		}
	}
	if !slices.Equal(got, degraded) {
		return fmt.Errorf("degraded are %v, want %v", got, degraded)
	}
	return nil
}

// says returns nil if the condition is True and its message has all the texts.
func (e *env) says(conditionType string, texts ...string) error {
	if err := e.hasCondition(conditionType, opv1.ConditionTrue, ""); err != nil {
		return err
	}
	message := e.message(conditionType)
	for _, text := range texts {
		if !strings.Contains(message, text) {
			return fmt.Errorf("the message of %s is %q, want it to say %q", conditionType, message, text)
		}
	}
	return nil
}
