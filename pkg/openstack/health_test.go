package openstack_test

import (
	"fmt"
	"strings"
	"testing"

	gophershares "github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestVolumesInErrorAreThoseWithTheStatus(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	ctx, text := t.Context(), s.cloud.CloudsYAML(simulator.Clouds{})
	manila, err := administrator.Shares(ctx, text)
	check(t, err)
	for _, name := range []string{"healthy", "broken"} {
		volume, err := administrator.CreateVolume(ctx, text, name)
		check(t, err)
		share, err := administrator.CreateShare(ctx, manila,
			gophershares.CreateOpts{ShareProto: "NFS", Size: 1, Name: name})
		check(t, err)
		if name == "broken" {
			check(t, s.cloud.SetStatus(simulator.Volume, volume, "error_extending"))
			check(t, s.cloud.SetStatus(simulator.Share, share, "extending_error"))
		}
	}
	client := s.asked()
	found := []string{}
	for _, status := range openstack.VolumeErrors() {
		volumes, err := client.VolumesInError(ctx, status)
		check(t, err)
		for _, v := range volumes {
			found = append(found, "volume "+v.Name+" "+v.Status)
		}
	}
	for _, status := range openstack.ShareErrors() {
		shares, err := client.SharesInError(ctx, status)
		check(t, err)
		for _, v := range shares {
			found = append(found, "share "+v.Name+" "+v.Status)
		}
	}
	assert.Check(t, is.DeepEqual([]string{
		"volume broken error_extending", "share broken extending_error",
	}, found))
}

// Cinder lists all volumes if its configuration permits no filter. A list that is longer than the
// limit is no answer.
func TestListsWithoutAFilterAreNotInError(t *testing.T) {
	t.Parallel()
	s := newSimulated(t, simulator.Config{})
	client := s.asked()
	s.replyOnce(simulator.Volume, `{"volumes": [{"id": "a", "name": "a", "status": "in-use"},
		{"id": "b", "name": null, "status": "error"}]}`)
	found, err := client.VolumesInError(t.Context(), "error")
	check(t, err)
	assert.Check(t, is.DeepEqual([]openstack.Volume{{ID: "b", Status: "error"}}, found))
	long := strings.Repeat(`{"id": "a", "status": "error"},`, 101)
	s.replyOnce(simulator.Share, fmt.Sprintf(`{"shares": [%s]}`, strings.TrimSuffix(long, ",")))
	found, err = client.SharesInError(t.Context(), "error")
	s.failure(len(found), err, openstack.CloudUnreachable)
}
