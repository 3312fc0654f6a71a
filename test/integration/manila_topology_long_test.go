//go:build integration && long

package integration

import (
	"fmt"
	"slices"
	"testing"

	storagev1 "k8s.io/api/storage/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/zones"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// TestSharesFollowPodsIntoZones checks that both workloads of Manila's driver and its new
// StorageClasses follow the zones of servers and shares, steadily and across restarts.
func TestSharesFollowPodsIntoZones(t *testing.T) {
	t.Parallel()
	for _, f := range []flavour.Flavour{flavour.Standalone, flavour.HyperShift} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, options{
				Flavour: f, Types: []string{"default"},
				Before: func(e *env) {
					e.setZones(simulator.Compute, "az1", "az2", "!az3")
					e.setZones(simulator.Share, "az1", "az2", "az3")
					e.choose("topology: Auto\n")
				},
			})
			e.sharesFollowZones()
		})
	}
}

func (e *env) sharesFollowZones() {
	e.awaitAvailable()
	e.must(e.sharesHaveTopology(true))
	e.must(e.hasClasses("csi-manila-default"))
	classes, err := e.classes()
	e.must(err)
	class := classes["csi-manila-default"]
	if class.Parameters["autoTopology"] != "true" ||
		*class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		e.t.Errorf("StorageClass with topology: %v, %v", class.Parameters, *class.VolumeBindingMode)
	}
	before := e.workloads()
	e.setZones(simulator.Share, "az1", "!az2", "az3") // a zone in maintenance decides nothing
	e.awaitPolls(2 * zones.Settle)
	e.stopOperator()
	e.startOperator()
	e.awaitPolls(2 * zones.Settle)
	e.must(e.sharesHaveTopology(true))
	e.mustHaveWorkloads(before)

	e.setZones(simulator.Share, "az1") // no share can follow a pod into az2
	e.eventually(prompt, func() error { return e.sharesHaveTopology(false) })
	e.eventually(soon, func() error {
		return e.hasCondition(manilaConfigValid, opv1.ConditionFalse, "PartlyIgnored",
			"StorageClass csi-manila-default was created with topology true")
	})
	e.must(e.hasEvent("ManilaTopologyChanged", "Topology changes from true to false"))
}

// sharesHaveTopology returns nil if the driver in both workloads has topology, or none has.
func (e *env) sharesHaveTopology(want bool) error {
	for name, w := range e.workloads() {
		for _, c := range w.Pod.Containers {
			serves := slices.ContainsFunc(c.Args, func(arg string) bool {
				return arg == "--drivername=$(DRIVER_NAME)"
			})
			if serves && want != slices.Contains(c.Args, "--with-topology") {
				return fmt.Errorf("container %s of %s has the arguments %q", c.Name, name, c.Args)
			}
		}
	}
	return nil
}
