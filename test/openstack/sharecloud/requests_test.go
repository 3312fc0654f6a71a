package sharecloud_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2"
	gophershares "github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/utils/clock"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/manila"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
	"github.com/openstack-csi/csi-operator/test/openstack/sharecloud"
	"github.com/openstack-csi/csi-operator/test/openstack/sharestate"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// errorsOf returns the errors of requests about a share by their names.
func errorsOf(ctx context.Context, requests manila.Shares, id string) map[string]error {
	rule := shares.AccessRule{Type: "ip", To: "10.0.0.5", Level: "rw"}
	invalid, unknown := rule, rule
	invalid.To, unknown.Type = "10.0.0.5/24", "mac"
	_, errRules := requests.Rules(ctx, id)
	_, exists, errFind := requests.Find(ctx, id)
	if errFind == nil && !exists {
		errFind = errors.New("does not exist")
	}
	rules, _ := requests.Rules(ctx, id)
	errRevoke := requests.Revoke(ctx, id, "00000000-0000-4000-8000-000000000000")
	if len(rules) > 0 {
		errRevoke = requests.Revoke(ctx, id, rules[0].ID)
	}
	long := strings.Repeat("m", shares.MaxMetadataValue+1)
	return map[string]error{
		"Grant": requests.Grant(ctx, id, rule), "Grant again": requests.Grant(ctx, id, rule),
		"invalid": requests.Grant(ctx, id, invalid), "unknown": requests.Grant(ctx, id, unknown),
		"Revoke": errRevoke, "Rules": errRules, "Find": errFind,
		"metadata": requests.SetMetadata(ctx, id, map[string]string{"a": long}),
		"nothing":  requests.DeleteMetadata(ctx, id, "missing"),
	}
}

// Tests with this cloud would prove nothing if it answered in another way than Manila.
func TestCloudRefusesAsTheSimulator(t *testing.T) {
	t.Parallel()
	simulated, err := simulator.New(simulator.Config{
		ShareTypes: []simulator.ShareType{{Name: "default"}},
	})
	assert.NilError(t, err)
	assert.NilError(t, simulated.Start(t.Context()))
	t.Cleanup(func() { _ = simulated.Close() })
	text := simulated.CloudsYAML(simulator.Clouds{})
	login, err := clouds.Content{Data: map[string][]byte{clouds.Key: text}}.Login()
	assert.NilError(t, err)
	client, err := shares.New(t.Context(), openstack.NewClient(
		openstack.Fixed(openstack.Access{Login: login}), openstack.NewBackoff(clock.RealClock{})))
	assert.NilError(t, err)
	manilaClient, err := administrator.Shares(t.Context(), text)
	assert.NilError(t, err)
	statuses := append(sharestate.RefusingRules(), sharestate.Available, sharestate.ErrorDeleting,
		"inactive", "copy", "recycled", "missing")
	for _, status := range statuses {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			id, err := administrator.CreateShare(t.Context(), manilaClient,
				gophershares.CreateOpts{ShareProto: "NFS", Size: 1})
			assert.NilError(t, err)
			_, err = administrator.Allow(t.Context(), manilaClient, id, "ip", "rw 10.0.0.6")
			assert.NilError(t, err)
			cloud := sharecloud.New(sharecloud.Config{})
			cloud.Create(sharecloud.Share{ID: id, Backend: "a", Rules: []string{"rw 10.0.0.6"}})
			cloud.Kill("a")
			asked := id
			switch status {
			case "copy":
				cloud.Become(id, sharestate.Available, 0, sharestate.Migrating)
				assert.NilError(t, simulated.SetShareCopies(id, sharestate.Migrating))
			case "recycled":
				cloud.Recycle(id, true)
				recycler := *manilaClient
				recycler.Microversion = "2.69"
				answer, err := recycler.Post(t.Context(), recycler.ServiceURL("shares", id, "action"),
					map[string]any{"soft_delete": nil}, nil,
					&gophercloud.RequestOpts{OkCodes: []int{http.StatusAccepted}})
				assert.NilError(t, err)
				assert.NilError(t, answer.Body.Close())
			case "missing":
				asked = "00000000-0000-4000-8000-000000000001"
			default:
				cloud.Become(id, status, 0)
				assert.NilError(t, simulated.SetStatus(simulator.Share, id, status))
			}
			got := errorsOf(t.Context(), cloud.Shares(""), asked)
			for request, want := range errorsOf(t.Context(), client, asked) {
				assert.Check(t, (want == nil) == (got[request] == nil), "%s: %v, %v", request, got[request],
					want)
				assert.Check(t, is.Equal(openstack.ReasonOf(got[request]), openstack.ReasonOf(want)), request)
			}
		})
	}
}
