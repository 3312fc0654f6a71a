//go:build integration && long

package integration

import (
	"fmt"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	storagev1 "k8s.io/api/storage/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/zones"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// classInZone is the choice of a StorageClass for one zone.
const classInZone = "classes: [{type: default, name: in-az2, availability: az2}]\n"

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
					e.choose("topology: Auto\n" + classInZone)
				},
			})
			e.sharesFollowZones()
		})
	}
}

func (e *env) sharesFollowZones() {
	e.awaitAvailable()
	e.must(e.sharesHaveTopology(true))
	e.must(e.hasClasses("csi-manila-default", "in-az2"))
	classes, err := e.classes()
	e.must(err)
	class := classes["csi-manila-default"]
	if class.Parameters["autoTopology"] != "true" ||
		*class.VolumeBindingMode != storagev1.VolumeBindingWaitForFirstConsumer {
		e.t.Errorf("StorageClass with topology: %v, %v", class.Parameters, *class.VolumeBindingMode)
	}
	before := e.workloads()
	const hidden = "pods in compute zones az2 get no new shares"
	remarks := func(text string) {
		e.eventually(soon, func() error {
			return e.hasCondition(manilaConfigValid, opv1.ConditionFalse, "PartlyIgnored", text)
		})
	}
	for text, shares := range map[string][]string{
		hidden: {"az1", "!az2", "az3"}, "the zones cannot be listed": {"!az1", "!az2", "!az3"},
	} {
		e.setZones(simulator.Share, shares...)
		e.awaitPolls(zones.Settle + 1)
		remarks(text)
	}
	e.setZones(simulator.Share, "az1", "!az2", "az3")
	e.setZones(simulator.Compute, "az1", "az2", "!az3", "az 4")
	e.stopOperator()
	e.startOperator()
	e.awaitPolls(zones.Settle + 1)
	remarks(`pods in compute zones "az 4", az2 get no new shares`)
	e.must(e.sharesHaveTopology(true))
	e.mustHaveWorkloads(before)
	after, err := e.classes()
	e.must(err)
	assert.Check(e.t, is.DeepEqual(classes, after), "the StorageClasses changed")

	e.choose("topology: Disabled\n" + classInZone)
	e.eventually(prompt, func() error { return e.sharesHaveTopology(false) })
	remarks("StorageClass csi-manila-default was created with topology true")
	e.choose("topology: Auto\n" + classInZone)
	e.awaitPolls(zones.Settle + 1)
	e.must(e.sharesHaveTopology(false)) // not all compute zones have shares
	e.setZones(simulator.Compute, "az1", "az2")
	e.setZones(simulator.Share, "az2", "az1")
	e.choose("topology: Auto\n") // lists the compute zones at once
	e.eventually(prompt, func() error { return e.sharesHaveTopology(true) })
	e.must(e.hasEvent("ManilaTopologyChanged", "Topology changes from false to true"))
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
