//go:build bench

package manila

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"

	"github.com/openstack-csi/csi-operator/test/golden"
)

func (s *slowCloud) DeleteMetadata(ctx context.Context, id, key string) error {
	return s.request(ctx, id, func(share *slowShare) { delete(share.Metadata, key) })
}

func (s *slowCloud) unfence(ctx context.Context, networks ...string) error {
	_, err := s.controller().UnfenceClusterNetwork(ctx,
		&fence.UnfenceClusterNetworkRequest{Cidrs: cidrs(networks...)})
	return err
}

// TestGrowthWithShares measures with a simulated clock what a fence of one address costs if each
// request takes 0.3 s.
func TestGrowthWithShares(t *testing.T) { //nolint:paralleltest // it writes a file
	const figures = "../../../test/bench/testdata/figures.json"
	for _, number := range []int{100, 1000, 10_000} { //nolint:paralleltest // it writes a file
		t.Run(strconv.Itoa(number), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newSlowCloud(number, 300*time.Millisecond)
				for _, one := range []struct {
					name string
					call func(context.Context, ...string) error
				}{{"fence", cloud.fence}, {"verification", cloud.fence}, {"end", cloud.unfence}} {
					start, before := time.Now(), cloud.requests
					cloud.complete(t, one.call)
					minutes := time.Since(start).Minutes()
					requests := float64(cloud.requests-before) / float64(number)
					t.Logf("%s: %.1f min, %.1f requests for each share", one.name, minutes, requests)
					golden.Figure(t, figures, one.name+"-min", minutes, 0)
					golden.Figure(t, figures, one.name+"-requests/share", requests, 0)
				}
			})
		})
	}
}
