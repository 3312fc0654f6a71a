//go:build integration

package csiaddons

import (
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
)

// TestReclaimSpaceJobs runs jobs of a volume that is attached, and of one that is not.
func TestReclaimSpaceJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	drivers := map[string]*fakeDriver{
		"both": {
			services: services{nodeService, controllerService}, reclaims: reclaims{online, offline},
			onNode: answers(100, 60, nil), inController: answers(60, 50, nil),
		},
		"detached": { // attached to no node, and the controller service cannot reclaim space
			services: services{nodeService, controllerService}, reclaims: reclaims{online, offline},
			onNode:       answers(9, 4, nil),
			inController: answers(0, 0, status.Error(codes.Unimplemented, "only on nodes")),
		},
	}
	var flags []string
	for name, d := range drivers {
		d.name = name
		flags = append(flags, "--driver-namespaces="+name+"="+driverNamespace)
		w.addSidecar(w.addPod(driverNamespace, "pod-of-"+name, "worker-1"), d)
		nodes := []string{"worker-1"}
		if name == "detached" {
			nodes = nil
		}
		w.addVolume(name, name, nodes...)
	}
	w.startController(flags...)

	for _, one := range []struct {
		driver, reason string
		reclaimed      string // "" means unknown
		node, ctrl     int32  // calls
	}{
		{"both", controller.ReasonReclaimed, "50", 1, 1},
		{"detached", controller.ReasonNotInUse, "", 0, 1},
	} {
		w.addJob(one.driver, one.driver)
		got := w.awaitEnd(one.driver).Status
		reclaimed := ""
		if got.ReclaimedSpace != nil {
			reclaimed = got.ReclaimedSpace.String()
		}
		assert.Check(t, got.Result == v1alpha1.OperationSucceeded && got.Reason == one.reason &&
			reclaimed == one.reclaimed && got.StartTime != nil && got.CompletionTime != nil &&
			got.Step == "", "the job of driver %s has the status %+v", one.driver, got)
		d := drivers[one.driver]
		assert.Check(t, d.nodeCalls.Load() == one.node && d.controllerCalls.Load() == one.ctrl,
			"the calls of driver %s are not as expected", one.driver)
		w.awaitEvent("default", one.driver,
			strings.TrimPrefix(got.Message, v1alpha1.ReclaimSpaceSucceeded+" "))
	}
}
