//go:build integration

package csiaddons

import (
	"context"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	eventsv1 "k8s.io/api/events/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/controller"
)

// TestReclaimSpaceJobs runs jobs of drivers with different capabilities and results.
func TestReclaimSpaceJobs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	drivers := map[string]*fakeDriver{
		"both": {
			services: services{nodeService, controllerService}, reclaims: reclaims{online, offline},
			onNode: answers(100, 60, nil), inController: answers(60, 50, nil),
		},
		"nodes": { // no controller service
			services: services{nodeService}, reclaims: reclaims{online}, onNode: answers(90, 30, nil),
		},
		"controllers": { // no node service
			services: services{controllerService}, reclaims: reclaims{offline},
			inController: answers(10, 20, nil), // the usage grows while the driver works
		},
		"unable": {
			services: services{nodeService}, reclaims: reclaims{online},
			onNode: answers(0, 0, status.Error(codes.Unimplemented, "the device cannot discard")),
		},
		"plain": {services: services{nodeService}},
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
		driver     string
		result     v1alpha1.OperationResult
		reason     string
		reclaimed  string // "" means unknown
		node, ctrl int32  // calls
	}{
		{"both", v1alpha1.OperationSucceeded, controller.ReasonReclaimed, "50", 1, 1},
		{"nodes", v1alpha1.OperationSucceeded, controller.ReasonReclaimed, "60", 1, 0},
		{"controllers", v1alpha1.OperationSucceeded, controller.ReasonReclaimed, "0", 0, 1},
		{"unable", v1alpha1.OperationSucceeded, controller.ReasonUnimplemented, "", 1, 0},
		{"plain", v1alpha1.OperationFailed, controller.ReasonUnsupported, "", 0, 0},
		{"detached", v1alpha1.OperationSucceeded, controller.ReasonNotInUse, "", 0, 1},
	} {
		w.addJob(one.driver, one.driver)
		job := w.awaitEnd(one.driver)
		got := job.Status
		reclaimed := ""
		if got.ReclaimedSpace != nil {
			reclaimed = got.ReclaimedSpace.String()
		}
		if got.Result != one.result || got.Reason != one.reason || reclaimed != one.reclaimed {
			t.Errorf("the job of driver %s ended as %s, %s, with %q bytes (%s), want %s, %s, %q",
				one.driver, got.Result, got.Reason, reclaimed, got.Message, one.result, one.reason,
				one.reclaimed)
		}
		d := drivers[one.driver]
		if n, c := d.nodeCalls.Load(), d.controllerCalls.Load(); n != one.node || c != one.ctrl {
			t.Errorf("driver %s got %d calls on nodes and %d in its controller service, want %d and %d",
				one.driver, n, c, one.node, one.ctrl)
		}
		assert.Check(t, got.StartTime != nil && got.CompletionTime != nil && got.Step == "",
			"the job of driver %s has the status %+v", one.driver, got)
	}
	w.checkEvents("both", "Started", "Started", "Succeeded")
	w.checkEvents("plain", "Failed")
}

// checkEvents compares the reasons of the events of a job.
func (w *world) checkEvents(job string, reasons ...string) {
	w.Helper()
	var got []string
	w.eventually(func(ctx context.Context) (bool, error) {
		var events eventsv1.EventList
		if err := w.client.List(ctx, &events, client.InNamespace("default")); err != nil {
			return false, err
		}
		got = nil
		for i := range events.Items {
			event := &events.Items[i]
			if event.Regarding.Name == job && event.Regarding.Kind == "ReclaimSpaceJob" {
				got = append(got, event.Reason)
			}
		}
		return len(got) >= len(reasons), nil
	})
	found := strings.Join(got, " ")
	for _, reason := range reasons {
		if strings.Count(found, reason) != strings.Count(strings.Join(reasons, " "), reason) {
			w.Errorf("job %s has the events %v, want %v", job, got, reasons)
			return
		}
	}
}
