package kubectl

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/volumes"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// stock creates a volume and a share with the ID of a cluster, and returns their IDs.
func stock(t *testing.T, cloud *simulator.Simulator, cluster string) (volume, share string) {
	t.Helper()
	manila, err := administrator.Shares(t.Context(), cloud.CloudsYAML(simulator.Clouds{}))
	assert.NilError(t, err)
	share, err = administrator.CreateShare(t.Context(), manila, shares.CreateOpts{
		ShareProto: "NFS", Size: 1,
		Metadata: map[string]string{"manila.csi.openstack.org/cluster": cluster},
	})
	assert.NilError(t, err)
	cinder, err := openstack.NewBlockStorageV3(manila.ProviderClient, gophercloud.EndpointOpts{})
	assert.NilError(t, err)
	created, err := volumes.Create(t.Context(), cinder, volumes.CreateOpts{
		Size: 1, Metadata: map[string]string{"cinder.csi.openstack.org/cluster": cluster},
	}, nil).Extract()
	assert.NilError(t, err)
	for ctx := t.Context(); created.Status == "creating" && ctx.Err() == nil; {
		if created, err = volumes.Get(ctx, cinder, created.ID).Extract(); err != nil {
			t.Fatal(err)
		}
	}
	return created.ID, share
}

// marked returns a scenario of a cluster with an ID, whose PersistentVolumes have handles.
func marked(t *testing.T, id string, handles map[string]string) *scenario {
	t.Helper()
	s := &scenario{}
	var all []unstructured.Unstructured
	decode(t, "testdata/objects.yaml", &all)
	for _, u := range all {
		handle, fields := handles[u.GetName()], u.Object
		switch {
		case u.GetKind() == "PersistentVolume" && handle != "":
			_ = unstructured.SetNestedField(fields, handle, "spec", "csi", "volumeHandle")
		case u.GetKind() == "Deployment" && findDriver("cinder").controller == u.GetName(),
			u.GetKind() == "Deployment" && findDriver("manila").controller == u.GetName():
			pod := []string{"spec", "template", "spec", "containers"}
			containers, _, _ := unstructured.NestedSlice(fields, pod...)
			containers[0].(map[string]any)["args"] = []any{"--cluster=" + id}
			_ = unstructured.SetNestedSlice(fields, containers, pod...)
		default:
			continue
		}
		s.Objects = append(s.Objects, u)
	}
	return s
}

func TestVolumesShowsWhatIsOrphaned(t *testing.T) {
	t.Parallel()
	cloud, file := newCloud(t, simulator.Config{ShareTypes: []simulator.ShareType{{Name: "a"}}})
	volume, share := stock(t, cloud, "c1")
	lost, lostShare := stock(t, cloud, "c1")
	other, _ := stock(t, cloud, "c2")
	s := marked(t, "c1", map[string]string{"pvc-2": volume})
	code, stdout, stderr := run(t, s.options(t), false, "volumes", "-A", "-o=json", "--clouds="+file)
	var list Volumes
	if err := json.Unmarshal([]byte(stdout), &list); err != nil || code != exitFailed {
		t.Fatalf("exit code %d, %v: %s%s", code, err, stdout, stderr)
	}
	var got []string
	for _, v := range list.Volumes {
		got = append(got, fmt.Sprintln(v.Claim, v.PersistentVolume, v.ID, v.Cloud, v.State, v.Orphan))
	}
	const none = "no PersistentVolume true\n"
	want := []string{
		"bound pvc-1 share-1 missing Bound true\n",
		"disk pvc-2 " + volume + " available Bound false\n",
		"  " + lost + " available " + none, "  " + share + " available " + none,
		"  " + lostShare + " available " + none,
	}
	slices.Sort(got)
	slices.Sort(want)
	assert.Check(t, is.DeepEqual(want, got), "volumes")
	if !strings.Contains(stderr, "This machine sent it") || strings.Contains(stdout, other) {
		t.Errorf("%s%s", stdout, stderr)
	}
	_, _, stderr = run(t, marked(t, "c1", nil).options(t), false, "volumes", "-A", "--clouds="+file)
	assert.Check(t, strings.Contains(stderr, "OpenStack contains no volume of this list"),
		"in another project: %s", stderr)
	s = marked(t, sharedID, nil)
	code, _, stderr = run(t, s.options(t), false, "volumes", "--clouds="+file)
	assert.Check(t, code == exitFailed && strings.Contains(stderr, "Choose an ID"),
		"with the ID of all clusters: exit code %d: %s", code, stderr)
}

func TestWhatOpenStackCreatesOrDeletesIsNoOrphan(t *testing.T) {
	t.Parallel()
	in := &contents{of: map[string]map[string]stored{findDriver("manila").name: {
		"a": {"creating_from_snapshot", true}, "b": {"deleting", true}, "c": {"error_deleting", true},
	}}}
	list := &Volumes{}
	if err := list.compare(t.Context(), in, &volumeFacts{}, true); err != nil ||
		len(list.Volumes) != 1 || list.Volumes[0].ID != "c" {
		t.Errorf("%v: %+v", err, list.Volumes)
	}
}
