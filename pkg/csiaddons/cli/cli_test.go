package cli

import (
	"strings"
	"testing"

	csi "github.com/container-storage-interface/spec/lib/go/csi"
	"github.com/csi-addons/spec/lib/go/encryptionkeyrotation"
	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/csi-addons/spec/lib/go/identity"
	"github.com/csi-addons/spec/lib/go/reclaimspace"
	"github.com/csi-addons/spec/lib/go/replication"
	"github.com/csi-addons/spec/lib/go/volumegroup"
	"github.com/google/go-cmp/cmp"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/testing/protocmp"
	"google.golang.org/protobuf/types/known/wrapperspb"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/test/fakedriver"
)

// execute runs the command against a driver, and returns the exit code, the output and the errors.
func execute(t *testing.T, d *fakedriver.Driver, args ...string) (int, string, string) {
	t.Helper()
	var stdout, stderr strings.Builder
	code := Main(t.Context(), append([]string{
		"--endpoint=unix://" + d.Socket, "--kubeconfig=" + serveCluster(t),
	}, args...), &stdout, &stderr)
	return code, stdout.String(), stderr.String()
}

// stagedAt is where kubelet stages the volume: the SHA-256 of volume-1 is the name of a folder.
const stagedAt = "/staging/" + driverName +
	"/d134c5a3656b7cd8339ec605c01ab63fed6fcaca8cb3067abde8a02c5bfacdc0/globalmount"

func TestOperationsSendTheFlagsToTheDriver(t *testing.T) {
	t.Parallel()
	stage, cloud := map[string]string{"of": "stage"}, map[string]string{"of": "cloud"}
	parameters := map[string]string{"zone": "a"}
	used := &csi.VolumeCapability{
		AccessMode: &csi.VolumeCapability_AccessMode{},
		AccessType: &csi.VolumeCapability_Mount{Mount: &csi.VolumeCapability_MountVolume{}},
	}
	one := &replication.ReplicationSource{Type: &replication.ReplicationSource_Volume{
		Volume: &replication.ReplicationSource_VolumeSource{VolumeId: "volume-1"},
	}}
	group := &replication.ReplicationSource{Type: &replication.ReplicationSource_Volumegroup{
		Volumegroup: &replication.ReplicationSource_VolumeGroupSource{VolumeGroupId: "group-1"},
	}}
	cidrs := []*fence.CIDR{{Cidr: "10.0.0.1/32"}, {Cidr: "fd00::/64"}}
	const volume, fenced = "--persistentvolume=data", "--cidrs=10.0.0.1/32,fd00::/64"
	const ofCloud, zone = "--secret=csi/cloud", "--parameters=zone=a"
	const content = "--volumegroupreplicationcontent=content"
	const rotation = "EncryptionKeyRotation --stagingpath=/staging " + volume + " " + ofCloud
	const modification = "ModifyVolumeGroupMembership --volumeids=1 " + content
	for args, want := range map[string]proto.Message{
		"GetIdentity":     &identity.GetIdentityRequest{},
		"GetCapabilities": &identity.GetCapabilitiesRequest{},
		"Probe":           &identity.ProbeRequest{},
		"ControllerReclaimSpace " + volume: &reclaimspace.ControllerReclaimSpaceRequest{
			VolumeId: "volume-1", Secrets: stage,
		},
		"NodeReclaimSpace --stagingpath=/staging " + volume: &reclaimspace.NodeReclaimSpaceRequest{
			VolumeId: "volume-1", VolumePath: stagedAt, StagingTargetPath: stagedAt,
			VolumeCapability: used, Secrets: stage,
		},
		rotation: &encryptionkeyrotation.EncryptionKeyRotateRequest{
			VolumeId: "volume-1", VolumePath: stagedAt, VolumeCapability: used, Secrets: cloud,
		},
		"NetworkFence --clusterid=c " + fenced + " " + ofCloud: &fence.FenceClusterNetworkRequest{
			Cidrs: cidrs, Secrets: cloud, Parameters: map[string]string{"clusterID": "c"},
		},
		"NetworkUnFence " + fenced + " " + zone: &fence.UnfenceClusterNetworkRequest{
			Cidrs: cidrs, Parameters: parameters,
		},
		"GetFenceClients " + zone: &fence.GetFenceClientsRequest{
			Parameters: parameters,
		},
		"ListClusterFence " + ofCloud: &fence.ListClusterFenceRequest{Secrets: cloud},
		"EnableVolumeReplication " + volume + " " + zone: &replication.EnableVolumeReplicationRequest{
			ReplicationSource: one, Secrets: stage, Parameters: parameters,
		},
		"DisableVolumeReplication " + content: &replication.DisableVolumeReplicationRequest{
			ReplicationSource: group,
		},
		"PromoteVolume --force --legacy " + volume: &replication.PromoteVolumeRequest{
			ReplicationSource: one, Secrets: stage, Force: true,
			VolumeId: "volume-1", //nolint:staticcheck // what --legacy sets
		},
		"DemoteVolume --volumegroupid=group-1 " + ofCloud: &replication.DemoteVolumeRequest{
			ReplicationSource: group, Secrets: cloud,
		},
		"ResyncVolume " + volume: &replication.ResyncVolumeRequest{
			ReplicationSource: one, Secrets: stage,
		},
		"GetVolumeReplicationInfo " + volume: &replication.GetVolumeReplicationInfoRequest{
			ReplicationSource: one, Secrets: stage,
		},
		"GetReplicationDestinationInfo " + content: &replication.GetReplicationDestinationInfoRequest{
			ReplicationSource: group,
		},
		"CreateVolumeGroup --volumegroupname=g --volumeids=1,2": &volumegroup.CreateVolumeGroupRequest{
			Name: "g", VolumeIds: []string{"1", "2"},
		},
		modification: &volumegroup.ModifyVolumeGroupMembershipRequest{
			VolumeGroupId: "group-1", VolumeIds: []string{"1"},
		},
		"DeleteVolumeGroup --volumegroupid=group-1": &volumegroup.DeleteVolumeGroupRequest{
			VolumeGroupId: "group-1",
		},
		"ControllerGetVolumeGroup " + content: &volumegroup.ControllerGetVolumeGroupRequest{
			VolumeGroupId: "group-1",
		},
		"ListVolumeGroups " + ofCloud: &volumegroup.ListVolumeGroupsRequest{
			Secrets: cloud,
		},
	} {
		d := fakedriver.Serve(t, answers(nil).answer)
		code, _, stderr := execute(t, d, strings.Fields("--operation="+args)...)
		if code != exitOK {
			t.Errorf("%s: exit code %d: %s", args, code, stderr)
			continue
		}
		name := string(want.ProtoReflect().Descriptor().Name())
		got := d.Last(strings.TrimSuffix(name, "Request"))
		assert.Check(t, is.DeepEqual(want, got, protocmp.Transform()), "%s: request of the driver", args)
	}
}

// The tool of the CSI-Addons for Ceph documents flags with one hyphen.
func TestLongFlagsMayHaveOneHyphen(t *testing.T) {
	t.Parallel()
	d := fakedriver.Serve(t, answers(nil).answer)
	for _, args := range []string{
		"-operation=Probe", "-operation Probe -o json", "--operation=Probe -timeout=1m",
		"-operation=Probe -ojson",
	} {
		if code, _, stderr := execute(t, d, strings.Fields(args)...); code != exitOK {
			t.Errorf("%s: exit code %d: %s", args, code, stderr)
		}
	}
	if code, _, _ := execute(t, d, "-operations=Probe"); code != exitUsage {
		t.Errorf("an unknown flag has the exit code %d", code)
	}
}

func TestAnswerIsPrintedAsTableOrJSON(t *testing.T) {
	t.Parallel()
	d := fakedriver.Serve(t, answers{"GetFenceClients": &fence.GetFenceClientsResponse{
		Clients: []*fence.ClientDetails{
			{Id: "worker-\x1b[31m1", Addresses: []*fence.CIDR{{Cidr: "10.0.0.1/32"}}},
			{Id: "worker-2"},
		},
	}}.answer)
	for output, want := range map[string]string{
		"table": "FIELD                         VALUE\n" +
			"clients[0].addresses[0].cidr  10.0.0.1/32\n" +
			"clients[0].id                 worker- [31m1\n" +
			"clients[1].id                 worker-2\n",
		"json": "{\n  \"clients\": [\n    {\n      \"addresses\": [\n        {\n" +
			"          \"cidr\": \"10.0.0.1/32\"\n        }\n      ],\n" +
			"      \"id\": \"worker-\\u001b[31m1\"\n    },\n    {\n      \"id\": \"worker-2\"\n" +
			"    }\n  ]\n}\n",
	} {
		code, stdout, stderr := execute(t, d,
			"--operation=GetFenceClients", "-o", output)
		if diff := cmp.Diff(want, stdout); diff != "" || code != exitOK {
			t.Errorf("exit code %d, %s, output (-want +got):\n%s", code, stderr, diff)
		}
	}
}

func TestExitCodeSaysWhatFailed(t *testing.T) {
	t.Parallel()
	d := fakedriver.Serve(t, answers{
		"GetCapabilities":  status.Error(codes.Unimplemented, "no capabilities"),
		"GetIdentity":      status.Error(codes.Internal, "broken"),
		"Probe":            &identity.ProbeResponse{Ready: wrapperspb.Bool(false)},
		"ListClusterFence": never,
	}.answer)
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"--operation=GetCapabilities":                    {exitUnsupported, "no capabilities"},
		"--operation=GetIdentity":                        {exitFailed, "Internal: broken"},
		"--operation=Probe":                              {exitFailed, "the driver is not ready"},
		"--operation=ListClusterFence --timeout=100ms":   {exitDeadline, "DeadlineExceeded"},
		"--operation=Probe --endpoint=/missing":          {exitUnreachable, "/missing"},
		"--operation=Probe --endpoint=tcp://a":           {exitUsage, "absolute path"},
		"":                                               {exitUsage, "use one of"},
		"--operation=Probe --output=yaml":                {exitUsage, "use table or json"},
		"--operation=Probe --timeout=0s":                 {exitUsage, "use a positive duration"},
		"--operation=Probe --unknown":                    {exitUsage, "unknown flag"},
		"--operation=Probe more":                         {exitUsage, `unexpected argument "more"`},
		"--operation=NetworkFence":                       {exitUsage, "needs --cidrs"},
		"--operation=NetworkFence --cidrs=10.0.0.1":      {exitUsage, `"10.0.0.1" is not a CIDR`},
		"--operation=NodeReclaimSpace":                   {exitUsage, "needs --persistentvolume"},
		"--operation=PromoteVolume":                      {exitUsage, "needs a volume group"},
		"--operation=CreateVolumeGroup":                  {exitUsage, "needs --volumegroupname"},
		"--operation=ListVolumeGroups --secret=cloud":    {exitUsage, "use namespace/name"},
		"--operation=ListVolumeGroups --secret=csi/none": {exitFailed, "not found"},
		"--operation=ControllerReclaimSpace --persistentvolume=none --drivername=a": {
			exitFailed, "reading PersistentVolume none",
		},
		"--operation=ControllerReclaimSpace --persistentvolume=data --drivername=a": {
			exitFailed, "not to the driver a",
		},
		"--operation=DeleteVolumeGroup --volumegroupreplicationcontent=none": {
			exitFailed, "reading VolumeGroupReplicationContent none",
		},
		"--operation=DemoteVolume --persistentvolume=data --volumegroupid=1": {exitUsage, "either"},
	} {
		code, stdout, stderr := execute(t, d, strings.Fields(args)...)
		if code != want.code || !strings.Contains(stderr, want.text) || stdout != "" {
			t.Errorf("%s: exit code %d, want %d; error %q, want %q; output %q", args, code, want.code,
				stderr, want.text, stdout)
		}
	}
}
