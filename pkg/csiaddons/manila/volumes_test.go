package manila

import (
	"context"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
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
		assert.Check(t, is.Equal(f.metadata(share)[markKey], cluster), "the mark of a share")
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
			f.must(f.requests().SetMetadata(t.Context(), share, map[string]string{markKey: "green"}))
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

func TestListOfPersistentVolumesIsNeededOnlyForAFence(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 0.0.0.0/0")
	c := f.controller()
	c.config.Volumes = func(context.Context) ([]Volume, error) {
		return nil, status.Error(codes.Unavailable, "no API server")
	}
	f.refused(f.fence(c, fenced), codes.Unavailable, "no API server")
	f.expectRules(share, "rw 0.0.0.0/0")
	f.must(f.fence(f.controller(), fenced))
	f.must(f.unfence(c, fenced))
	f.expectRules(share, "rw 0.0.0.0/0")
}
