package manila

import (
	"context"
	"errors"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	gophershares "github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestSharesOfPersistentVolumesAreFencedAndRestored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	own, static := f.share(cluster, "rw 0.0.0.0/0"), f.share("", "rw 0.0.0.0/0")
	shared, unused := f.share(sharedCluster, "rw 0.0.0.0/0"), f.share("", "rw 0.0.0.0/0")
	f.volume("a", own)
	f.volume("b", static)
	f.volume("c", static)
	f.volume("d", shared)
	f.must(f.fence(f.controller(), fenced))
	for _, share := range []string{own, static, shared} {
		f.expectAccess(share, "", "rw", "rw")
		assert.Check(t, is.Equal(f.metadata(share)[shares.FenceKey], cluster), "the mark of a share")
	}
	f.expectRules(unused, "rw 0.0.0.0/0")
	f.volumes = nil // the end of a fence finds the shares by their mark
	f.must(f.fence(f.controller(), neighbor))
	f.expectAccess(static, "", "", "rw")
	f.must(f.unfence(f.controller(), fenced, neighbor))
	f.must(f.unfence(f.controller(), fenced, neighbor))
	for _, share := range []string{own, static, shared} {
		f.expectRules(share, "rw 0.0.0.0/0")
	}
}

func TestFenceWithoutAShareOfTheClusterIncludesThoseOfPersistentVolumes(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share("", "rw 0.0.0.0/0")
	f.volume("a", share)
	f.must(f.unfence(f.controller(), fenced)) // before the first fence
	f.must(f.fence(f.controller(), fenced))
	f.expectAccess(share, "", "rw", "rw")
	for range 2 {
		f.must(f.unfence(f.controller(), fenced))
		f.expectRules(share, "rw 0.0.0.0/0")
	}
}

func TestFenceRefusesSharesThatItCannotInclude(t *testing.T) {
	t.Parallel()
	const missing = "00000000-0000-4000-8000-000000000000"
	for name, test := range map[string]struct {
		volume func(f *fixture) Volume
		want   string
	}{
		"of another cluster": {func(f *fixture) Volume {
			return Volume{ShareID: f.share("green", "rw 0.0.0.0/0")}
		}, "belongs to another cluster"},
		"fenced by another cluster": {func(f *fixture) Volume {
			share := f.share("", "rw 0.0.0.0/0")
			f.must(f.requests().SetMetadata(t.Context(), share, map[string]string{shares.FenceKey: "green"}))
			return Volume{ShareID: share}
		}, "belongs to another cluster"},
		"missing": {func(f *fixture) Volume {
			f.volumes = append(f.volumes, Volume{ShareID: missing}) // released
			return Volume{ShareID: missing, Bound: true}
		}, "does not contain"},
		"by name":    {func(*fixture) Volume { return Volume{ShareName: "a"} }, "attribute shareName"},
		"invalid ID": {func(*fixture) Volume { return Volume{ShareID: missing + "/"} }, "no valid attr"},
		"no ID":      {func(*fixture) Volume { return Volume{} }, "no valid attribute shareID"},
		"both": {func(f *fixture) Volume {
			return Volume{ShareID: f.share(cluster), ShareName: "a"}
		}, "attribute shareName"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			own, static := f.share(cluster, "rw 0.0.0.0/0"), f.share("", "rw 0.0.0.0/0")
			f.volume("fine", static)
			refused := test.volume(f)
			refused.Name = "refused"
			f.volumes = append(f.volumes, refused)
			f.cloud.ResetLog()
			err := f.fence(f.controller(), fenced)
			f.refused(err, codes.FailedPrecondition, "PersistentVolume refused")
			f.refused(err, codes.FailedPrecondition, test.want)
			f.expectNoChange()
			f.expectRules(own, "rw 0.0.0.0/0")
			f.expectRules(static, "rw 0.0.0.0/0")
			f.must(f.unfence(f.controller(), fenced))
		})
	}
}

// expectNoChange expects that all requests about shares since the log was reset only read.
func (f *fixture) expectNoChange() {
	f.Helper()
	for _, request := range f.cloud.Log() {
		assert.Check(f, !strings.HasPrefix(request.Path, "/share/") || request.Method == http.MethodGet,
			"the request %s %s changes something", request.Method, request.Path)
	}
}

// Nobody can mount the share of a PersistentVolume that was released, if the share is gone.
func TestReleasedPersistentVolumeWithoutItsShareIsIgnored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	own, released := f.share(cluster, "rw 0.0.0.0/0"), f.share("", "rw 0.0.0.0/0")
	f.volumes = []Volume{
		{Name: "gone", ShareID: "00000000-0000-4000-8000-000000000000"},
		{Name: "kept", ShareID: released},
	}
	f.must(f.fence(f.controller(), fenced))
	f.expectAccess(own, "", "rw", "rw")
	f.expectAccess(released, "", "rw", "rw")
}

func TestVolumesAndThePluginMustAnswerOnlyForAFence(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 0.0.0.0/0")
	noVolumes, noPlugin := f.controller(), f.controller()
	noVolumes.config.Volumes = func(context.Context) ([]Volume, error) {
		return nil, status.Error(codes.Unavailable, "no API server")
	}
	noPlugin.config.PluginVersion = reports("", errors.New("no such file"))
	for want, c := range map[string]*Controller{
		"no API server": noVolumes, "reading the version of manila-csi-plugin": noPlugin,
	} {
		f.refused(f.fence(c, fenced), codes.Unavailable, want)
		f.expectRules(share, "rw 0.0.0.0/0")
		f.must(f.fence(f.controller(), fenced))
		f.must(f.unfence(c, fenced))
		f.expectRules(share, "rw 0.0.0.0/0")
	}
}

func TestFenceAndItsEndFailWithoutAnyShare(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.share("green", "rw 0.0.0.0/0")
	c := f.controller()
	f.refused(f.fence(c, fenced), codes.FailedPrecondition, `no share in the project has`)
	share := f.share(cluster, "rw 0.0.0.0/0")
	f.must(f.fence(c, fenced))
	empty := f.fault(simulator.Fault{
		Mode: simulator.Foreign, Method: http.MethodGet, PathPrefix: "/share/v2/shares/detail",
		Answer: &simulator.Answer{Status: http.StatusOK, Body: `{"shares":[]}`},
	})
	f.refused(f.unfence(c, fenced), codes.FailedPrecondition, "no share in the project has")
	f.expectAccess(share, "", "rw", "rw")
	f.must(f.cloud.ClearFaults(empty))
	f.must(f.unfence(c, fenced))
	f.expectRules(share, "rw 0.0.0.0/0")
}

func TestFenceFailsIfAShareHasAnotherProtocol(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 0.0.0.0/0")
	f.shareOf("CIFS", cluster)
	err := f.fence(f.controller(), fenced)
	f.refused(err, codes.FailedPrecondition, "1 of 2 shares of the cluster do not use NFS")
	f.expectRules(share, "rw 0.0.0.0/0")
	f.must(f.unfence(f.controller(), fenced))
}

func TestClusterIDOfSeveralClustersIsRefused(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(sharedCluster, "rw 0.0.0.0/0")
	c := f.controller()
	c.config.Cluster = sharedCluster
	f.refused(f.fence(c, fenced), codes.FailedPrecondition, "spec.clusterID")
	f.refused(f.unfence(c, fenced), codes.FailedPrecondition, "spec.clusterID")
	f.expectAccess(share, "rw", "rw", "rw")
}

func TestShareThatDoesNotSettleDoesNotKeepOthersFromChanging(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	busy, healthy := f.share(cluster), f.share(cluster, "rw 0.0.0.0/0")
	stalled := f.fault(simulator.Fault{
		Mode: simulator.Stall, Method: http.MethodPost, PathPrefix: "/share/v2/shares/" + busy, Times: 1,
	})
	f.must(gophershares.GrantAccess(t.Context(), f.manila, busy, gophershares.GrantAccessOpts{
		AccessType: ipType, AccessLevel: readWrite, AccessTo: "0.0.0.0/0",
	}).Err)
	c := f.controller()
	c.pace.patience = 2 * time.Second // enough for the other share on a busy machine
	err := f.fence(c, fenced)
	f.refused(err, codes.Unavailable,
		"1 of 2 shares did not change, of which 1 wait for Manila: share "+busy+": earlier changes")
	f.expectAccess(healthy, "", "rw", "rw")
	f.cloud.ResetLog()
	done := make(chan error, 1)
	go func() { done <- f.fence(f.controller(), fenced) }() // waits for the request
	_, err = f.cloud.WaitRequest(t.Context(), func(request simulator.Request) bool {
		return strings.HasPrefix(request.Path, "/share/v2/share-access-rules")
	})
	f.must(err)
	f.must(f.cloud.ClearFaults(stalled))
	f.must(<-done)
	f.expectAccess(busy, "", "rw", "rw")
}

func TestOnlyAShareThatDoesNotExistIsIgnored(t *testing.T) {
	t.Parallel()
	const missing = `{"itemNotFound":{"code":404,"message":"gone"}}`
	for name, fault := range map[string]simulator.Fault{
		"lists of access rules": {PathPrefix: "/share/v2/share-access-rules"},
		"changes":               {PathPrefix: "/share/v2/shares/", Method: http.MethodPost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			share := f.share(cluster, "rw 0.0.0.0/0")
			fault.Mode, fault.Answer = simulator.Foreign, &simulator.Answer{
				Status: http.StatusNotFound, Body: missing,
			}
			set := f.fault(fault)
			f.refused(f.fence(f.controller(), fenced), codes.Unavailable, "1 of 1 shares did not change")
			f.expectAccess(share, "rw", "rw", "rw")
			f.must(f.cloud.ClearFaults(set))
			f.must(f.fence(f.controller(), fenced))
			f.expectAccess(share, "", "rw", "rw")
		})
	}
}

func TestShareThatIsDeletedMeanwhileIsIgnored(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share, other := f.share(cluster, "rw 0.0.0.0/0"), f.share(cluster, "rw 0.0.0.0/0")
	c, _ := f.crashAfter(noCrash, func() {
		if f.access(share, fenced) != "" { // once
			f.must(gophershares.Delete(t.Context(), f.manila, share).ExtractErr())
			f.must(wait.PollUntilContextTimeout(t.Context(), time.Millisecond, patience, true,
				func(context.Context) (bool, error) {
					_, exists := f.cloud.ShareAccess(share, netip.MustParseAddr(fenced))
					return !exists, nil
				}))
		}
	})
	f.must(f.fence(c, fenced))
	f.expectAccess(other, "", "rw", "rw")
}

// Nobody can mount a share that Manila deletes, and some are in this status for ever.
func TestShareThatManilaDeletesIsSkipped(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share, other := f.shareOf("CIFS", cluster), f.share(cluster, "rw 0.0.0.0/0")
	f.fault(simulator.Fault{Mode: simulator.Stall, Method: http.MethodDelete})
	f.must(gophershares.Delete(t.Context(), f.manila, share).ExtractErr())
	f.must(f.fence(f.controller(), fenced))
	f.expectAccess(other, "", "rw", "rw")
	f.must(f.unfence(f.controller(), fenced))
	f.expectRules(other, "rw 0.0.0.0/0")
}

func TestRuleThatIsAddedDuringAFenceIsRevoked(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 10.0.0.0/24")
	added := false
	c, _ := f.crashAfter(noCrash, func() {
		if !added {
			added = true
			f.allow(share, ipType, "rw 10.0.0.0/8")
		}
	})
	f.must(f.fence(c, fenced))
	f.expectAccess(share, "", "rw", "")
	f.must(f.unfence(f.controller(), fenced))
	f.expectRules(share, "rw 10.0.0.0/24", "rw 10.0.0.0/8")
}

// unreadable cannot read access rules after it has removed one.
type unreadable struct {
	Shares
	removed bool
}

func (u *unreadable) Revoke(ctx context.Context, share, rule string) error {
	u.removed = true
	return u.Shares.Revoke(ctx, share, rule)
}

func (u *unreadable) Rules(ctx context.Context, id string) ([]shares.AccessRule, error) {
	if u.removed {
		return nil, errCrash
	}
	return u.Shares.Rules(ctx, id)
}

func TestFenceThatCannotBeVerifiedFails(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	f.share(cluster, "rw 10.0.0.0/24")
	c, requests := f.controller(), &unreadable{Shares: f.requests()}
	c.config.Connect = func(context.Context) (Shares, error) { return requests, nil }
	f.refused(f.fence(c, fenced), codes.Unavailable, errCrash.Error())
}
