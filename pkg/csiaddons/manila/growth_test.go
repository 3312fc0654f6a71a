//go:build bench

package manila

import (
	"context"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"github.com/openstack-csi/csi-operator/test/golden"
)

// TestGrowthWithShares measures with a simulated clock what a fence of one address costs if each
// request takes 0.3 s.
func TestGrowthWithShares(t *testing.T) { //nolint:paralleltest // it writes a file
	const figures = "../../../test/bench/testdata/figures.json"
	for _, number := range []int{100, 1000, 10_000} { //nolint:paralleltest // it writes a file
		t.Run(strconv.Itoa(number), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				cloud := newCloud(number, slow())
				for _, one := range []struct {
					name string
					call func(context.Context, ...string) error
				}{{"fence", cloud.fence}, {"verification", cloud.fence}, {"end", cloud.unfence}} {
					start, before := time.Now(), cloud.Requests()
					cloud.complete(t, number, one.call)
					minutes := time.Since(start).Minutes()
					requests := float64(cloud.Requests()-before) / float64(number)
					t.Logf("%s: %.1f min, %.1f requests for each share", one.name, minutes, requests)
					golden.Figure(t, figures, one.name+"-min", minutes, 0)
					golden.Figure(t, figures, one.name+"-requests/share", requests, 0)
				}
			})
		})
	}
}
