package kubectl

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/volumeattach"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const lostServer = "7b0f7a44-60c1-4a2f-8f6e-1c1f0f9f9a09"

// attachTo attaches a volume to a server.
func attachTo(t *testing.T, cloud *simulator.Simulator, server, volume string) {
	t.Helper()
	manila, err := administrator.Shares(t.Context(), cloud.CloudsYAML(simulator.Clouds{}))
	assert.NilError(t, err)
	nova, err := openstack.NewComputeV2(manila.ProviderClient, gophercloud.EndpointOpts{})
	assert.NilError(t, err)
	_, err = volumeattach.Create(t.Context(), nova, server, volumeattach.CreateOpts{
		VolumeID: volume,
	}).Extract()
	assert.NilError(t, err)
}

// later returns options an hour after the last change in OpenStack.
func (s *scenario) later(t *testing.T) *options {
	t.Helper()
	o := s.options(t)
	o.clock = clocktesting.NewFakePassiveClock(time.Now().Add(time.Hour))
	return o
}

func TestVolumesSaysWhatIsWrongInOpenStack(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
	volume, share := stock(t, cloud, "c1")
	orphan, hung := stock(t, cloud, "c1")
	assert.NilError(t, cloud.SetStatus(simulator.Volume, volume, "error_extending",
		simulator.Reason{Action: "007", Detail: "010"}))
	assert.NilError(t, cloud.SetStatus(simulator.Share, share, "error",
		simulator.Reason{Action: "001", Detail: "009"}))
	assert.NilError(t, cloud.SetStatus(simulator.Volume, orphan, "deleting"))
	assert.NilError(t, cloud.SetStatus(simulator.Share, hung, "extending"))
	s := marked(t, "c1", map[string]string{"pvc-1": share, "pvc-2": volume})
	code, stdout, stderr := run(t, s.later(t), false, "volumes", "-A", "--clouds="+clouds)
	got := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{
		"!! pvc-2: volume " + volume + " could not be grown for 60m: extend volume:Volume Driver " +
			"failed to extend volume. Ask the cloud's administrator: \"growing volume " + volume +
			" failed. Repair the cause, and run openstack volume set --state available " + volume +
			"\"; then yours: wait, the resizer grows it again status error_extending in OpenStack",
		"!! pvc-1: share " + share + " is in error: allocate host: No storage could be allocated for " +
			"this share request, Capacity filter didn't succeed. Ask",
		"! volume " + orphan + " is being deleted for 60m. Ask",
		"~~ share " + hung + " is extending at this moment; OpenStack does not say since when. " +
			"Yours: wait",
	} {
		assert.Check(t, is.Contains(got, want), stderr)
	}
	assert.Check(t, is.Equal(code, exitFailed))

	_, stdout, _ = run(t, s.later(t), false, "volumes", "-o=json", "-n=shop", "--clouds="+clouds)
	var list Volumes
	assert.NilError(t, json.Unmarshal([]byte(stdout), &list))
	assert.Check(t, len(list.Health) == 2 && strings.Contains(list.Volumes[0].Note, "is in error"),
		stdout)
}

func TestVolumesOfOneTroubleAreOneLine(t *testing.T) {
	t.Parallel()
	list := &Volumes{cloud: true}
	for i := range 10_000 {
		pv := fmt.Sprintf("pvc-%d", i)
		list.Volumes = append(list.Volumes, Volume{PersistentVolume: pv, ailment: &ailment{
			service: "Manila", id: "share", pv: pv, use: usedVolume, stored: stored{status: "error"},
			message: fmt.Sprintf("message %d", i),
		}})
	}
	list.judge(t.Context(), &cloud{}, &volumeFacts{})
	assert.Check(t, len(list.Health) == 1 && strings.HasSuffix(list.Health[0].Text,
		"message 0; the same for pvc-1, pvc-2, pvc-3 and 9996 more"), "%+v", list.Health)
}

// lostNode returns a scenario in which the node of an attached volume is gone.
func lostNode(t *testing.T, volume string, isDeleted bool) *scenario {
	t.Helper()
	s := marked(t, "c1", map[string]string{"pvc-2": volume})
	metadata := map[string]any{
		"name": "va-2", "annotations": map[string]any{"csi.alpha.kubernetes.io/node-id": lostServer},
	}
	if isDeleted {
		metadata["deletionTimestamp"] = "2026-11-24T11:50:00Z"
		metadata["finalizers"] = []any{"external-attacher/cinder-csi-openstack-org"}
	}
	s.Objects = append(s.Objects, unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment", "metadata": metadata,
		"spec": map[string]any{
			"attacher": "cinder.csi.openstack.org", "nodeName": "worker-9",
			"source": map[string]any{"persistentVolumeName": "pvc-2"},
		},
		"status": map[string]any{"attached": true},
	}})
	return s
}

// The server is in a state, or does not exist, "".
func TestWhySaysHowToFreeTheVolumeOfALostNode(t *testing.T) {
	t.Parallel()
	const patch = "kubectl patch volumeattachment va-2 --type=merge"
	for server, want := range map[string][2]string{
		"SHUTOFF": {
			"Yours: kubectl delete volumeattachment va-2, and the attacher",
			"Yours: openstack server remove volume " + lostServer,
		},
		"ACTIVE": {
			"Yours: openstack server stop " + lostServer, "Yours: openstack server stop " + lostServer,
		},
		"ERROR":    {"Yours: openstack server show " + lostServer, "Yours: openstack server show"},
		"":         {"Yours: kubectl delete volumeattachment va-2", "volume attachment delete "},
		"detached": {"Yours: kubectl delete volumeattachment va-2", patch},
	} {
		cloud, clouds := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
		volume, _ := stock(t, cloud, "c1")
		cloud.AddServer(simulator.Server{ID: lostServer, Status: server})
		if server != "detached" {
			attachTo(t, cloud, lostServer, volume)
		}
		if server == "" {
			cloud.RemoveServer(lostServer)
		}
		for i, isDeleted := range []bool{false, true} {
			s := lostNode(t, volume, isDeleted)
			code, stdout, stderr := run(t, s.later(t), false, "why", "volumeattachment/va-2",
				"--clouds="+clouds)
			got := strings.Join(strings.Fields(stdout), " ")
			assert.Check(t, strings.Contains(got, want[i]) && code == exitFailed, "%q %v: %s%s", server,
				isDeleted, got, stderr)
			_, stdout, _ = run(t, s.later(t), false, "volumes", "-A", "--clouds="+clouds)
			assert.Check(t, is.Contains(strings.Join(strings.Fields(stdout), " "), want[i]), server)
		}
	}
}

// The server of a node that does not answer is in a state, or does not exist, "".
func TestSilentNodesAreToldWithTheStateOfTheirServers(t *testing.T) {
	t.Parallel()
	for server, want := range map[string]string{
		"SHUTOFF": "which is shut off, so node worker-9 has not answered for 5m. Yours: openstack " +
			"server start " + lostServer + "; or if it stays off, kubectl taint node worker-9",
		"ACTIVE": "which runs and may write, but node worker-9 has not answered for 5m. Yours:",
		"": "which is gone, so node worker-9 has not answered for 5m. Yours: kubectl delete node " +
			"worker-9",
		"none": "node worker-9, which has not answered for 5m. ",
	} {
		cloud, clouds := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
		volume, _ := stock(t, cloud, "c1")
		cloud.AddServer(simulator.Server{ID: lostServer, Status: server})
		attachTo(t, cloud, lostServer, volume)
		args := []string{"--clouds=" + clouds}
		switch server {
		case "":
			cloud.RemoveServer(lostServer)
		case "none":
			args = nil
		}
		s := lostNode(t, volume, true)
		s.Objects = append(s.Objects, unstructured.Unstructured{Object: map[string]any{
			"apiVersion": "v1", "kind": "Node", "metadata": map[string]any{"name": "worker-9"},
			"status": map[string]any{"conditions": []any{map[string]any{
				"type": "Ready", "status": "Unknown", "lastTransitionTime": "2026-11-24T11:55:00Z",
			}}},
		}})
		for _, command := range []string{"why volumeattachment/va-2", "volumes -A"} {
			code, stdout, stderr := run(t, s.options(t), false, append(strings.Fields(command), args...)...)
			got := strings.Join(strings.Fields(stdout), " ")
			assert.Check(t, strings.Contains(got, want) && !strings.Contains(got, "NetworkFence") &&
				code == exitFailed, "%q %s: %s%s", server, command, got, stderr)
		}
	}
}

func TestWhyKnowsALostNodeWithoutOpenStack(t *testing.T) {
	t.Parallel()
	s := lostNode(t, "volume-2", false)
	code, stdout, _ := run(t, s.later(t), false, "why", "volumeattachment/va-2")
	got := strings.Join(strings.Fields(stdout), " ")
	for _, want := range []string{
		"volume volume-2 is still attached to node worker-9, which does not exist any more. Yours: " +
			"openstack server show " + lostServer + " -c status; while it runs, openstack server stop",
		"?? what OpenStack says about the server of the node: run this command with --clouds",
	} {
		assert.Check(t, is.Contains(got, want))
	}
	assert.Check(t, is.Equal(code, exitFailed))
	_, stdout, _ = run(t, s.later(t), false, "volumes", "-A")
	assert.Check(t, is.Contains(strings.Join(strings.Fields(stdout), " "), "!! pvc-2: volume "+
		"volume-2 is attached to server "+lostServer+" of node worker-9, which does not exist any more. "+
		"Yours:"))
}

// A server of another project is not gone.
func TestWhyNeedsTheProjectOfTheVolume(t *testing.T) {
	t.Parallel()
	_, clouds := newCloud(t, simulator.Config{})
	s := lostNode(t, "volume-2", false)
	_, stdout, _ := run(t, s.later(t), false, "why", "volumeattachment/va-2", "--clouds="+clouds)
	assert.Check(t, is.Contains(strings.Join(strings.Fields(stdout), " "),
		"does not exist in the OpenStack project of this login. Yours: check that the login"))
}

func TestWhyMeetsTheStatusInOpenStack(t *testing.T) {
	t.Parallel()
	cloud, clouds := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
	volume, share := stock(t, cloud, "c1")
	s := marked(t, "c1", map[string]string{"pvc-1": share, "pvc-2": volume})
	for _, question := range []string{"pvc/disk", "pvc/bound", "pv/pvc-1", "pv/pvc-2"} {
		code, stdout, _ := run(t, s.later(t), false, "why", question, "-n=shop", "--clouds="+clouds)
		assert.Check(t, is.Equal(code, exitOK), "%s: %s", question, stdout)
	}
	cloud.AddServer(simulator.Server{ID: lostServer})
	attachTo(t, cloud, lostServer, volume)
	assert.NilError(t, cloud.SetStatus(simulator.Share, share, "reverting_error"))
	for question, want := range map[string]string{
		"pvc/disk":  "is attached to server " + lostServer + ", and no VolumeAttachment says so",
		"pv/pvc-2":  "is attached to server " + lostServer + ", and no VolumeAttachment says so",
		"pvc/bound": "has an incomplete content, because it could not be restored. Yours: stop the pods",
	} {
		code, stdout, _ := run(t, s.later(t), false, "why", question, "-n=shop", "--clouds="+clouds)
		assert.Check(t, strings.Contains(strings.Join(strings.Fields(stdout), " "), want) &&
			code == exitFailed, "%s: %s", question, stdout)
	}
	cloud.RotateCredentials(simulator.Rotation{})
	_, stdout, _ := run(t, s.later(t), false, "why", "pv/pvc-2", "--clouds="+clouds)
	assert.Check(t, is.Contains(stdout, "!   from this machine: OpenStack's identity"))
}
