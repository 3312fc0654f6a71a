package simulator

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
)

// Tests of fences trust the export: a share that it gives to a client without a rule would not be
// noticed there.
func TestExportsAdmitClientsByTheAddressOfTheConnection(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("default")})
	client := clientOf(ctx, t, cloud, openstack.NewSharedFileSystemV2, "2.37")
	share, err := shares.Create(ctx, client, shares.CreateOpts{ShareProto: "NFS", Size: 1}).Extract()
	must(t, err)
	eventually(ctx, t, "available", func() (string, error) {
		share, err := shares.Get(ctx, client, share.ID).Extract()
		if err != nil {
			return "", err
		}
		return share.Status, nil
	})
	server := httptest.NewServer(cloud.Exports())
	t.Cleanup(server.Close)
	ask := func() (string, error) {
		request, err := http.NewRequestWithContext(ctx, http.MethodGet,
			server.URL+"/shares/"+share.ID, nil)
		if err != nil {
			return "", err
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			return "", err
		}
		defer response.Body.Close()
		body, err := io.ReadAll(response.Body)
		return strings.TrimSpace(string(body)), err
	}
	const refused = "no access rule admits 127.0.0.1"
	eventually(ctx, t, refused, ask)
	stall := set(t, cloud, Fault{Mode: Stall, Service: Share, Times: 1})
	var last *shares.AccessRight
	for i, rule := range []struct{ to, level, want string }{
		{"127.0.0.0/8", "ro", refused}, // the fault stalls the rule
		{"10.0.0.0/24", "rw", `{"access":"ro"}`},
		{"127.0.0.1", "rw", `{"access":"rw"}`},
	} {
		last, err = shares.GrantAccess(ctx, client, share.ID, shares.GrantAccessOpts{
			AccessType: "ip", AccessTo: rule.to, AccessLevel: rule.level,
		}).Extract()
		must(t, err)
		eventually(ctx, t, rule.want, ask)
		if i == 0 {
			must(t, cloud.ClearFaults(stall.ID))
		}
	}
	must(t, shares.RevokeAccess(ctx, client, share.ID,
		shares.RevokeAccessOpts{AccessID: last.ID}).ExtractErr())
	eventually(ctx, t, `{"access":"ro"}`, ask)
}
