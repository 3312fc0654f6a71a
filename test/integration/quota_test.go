//go:build integration

package integration

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// nearlyFull is a cloud whose quotas of gigabytes others nearly fill. It allows no snapshots.
func nearlyFull() simulator.Config {
	quotas := []simulator.Quota{
		{Resource: "gigabytes", Limit: 1000, Others: 930}, {Resource: "snapshots", Limit: 0},
	}
	return simulator.Config{VolumeQuotas: quotas, ShareQuotas: quotas}
}

func TestNearlyFullQuotaIsAWarning(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.OnOpenShift() {
		for _, s := range subjects() {
			if !long && f != flavour.Standalone {
				continue
			}
			t.Run(s.Program+"/"+string(f), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, options{Subject: s, Flavour: f, Cloud: nearlyFull()})
				e.awaitAvailable()
				e.eventually(soon, func() error {
					return errors.Join(e.hasCondition(ofSubject(s, "Manila", "Cinder")+"Quota",
						opv1.ConditionFalse, "NearlyFull", "gigabytes (limit 1000)"),
						e.hasCondition(ready, opv1.ConditionTrue, "AsExpected"))
				})
				for series, want := range map[string]float64{
					"used gigabytes": 930, "limit gigabytes": 1000, "limit snapshots": 0,
				} {
					name, resource, _ := strings.Cut(series, " ")
					got, err := e.metric("openstack_csi_quota_"+name,
						fmt.Sprintf("driver=%q", e.subject.ClusterCSIDriver),
						fmt.Sprintf("resource=%q", resource))
					if err != nil || got != want {
						t.Errorf("the metric of %s is %v, %v; want %v", series, got, err, want)
					}
				}
			})
		}
	}
}

// The access rules of the credentials permit everything but quotas.
func TestRefusedQuotasChangeNothing(t *testing.T) {
	t.Parallel()
	for _, s := range subjects() {
		t.Run(s.Program, func(t *testing.T) {
			t.Parallel()
			e := newEnv(t, options{Subject: s, Cloud: nearlyFull(), Before: func(e *env) {
				for _, path := range []string{"/share/v2/limits", "/volume/v3/os-quota-sets"} {
					e.fault(simulator.Fault{
						Mode: simulator.Status, PathPrefix: path, Status: http.StatusUnauthorized,
					})
				}
			}})
			e.awaitAvailable()
			path := ofSubject(s, "/share/v2/limits", "/volume/v3/os-quota-sets")
			_, err := e.cloud.WaitRequest(e.ctx(), func(r simulator.Request) bool {
				return len(r.Path) >= len(path) && r.Path[:len(path)] == path
			})
			e.must(err)
			for range 2 {
				e.cloud.RevokeTokens()
				requests := e.cloud.Log()
				last := requests[len(requests)-1].Number
				// A login whose token is refused before it served a request that is not optional counts
				// as useless, and the next one is delayed.
				hasServed := func(r simulator.Request) bool {
					return r.Number > last && r.Status == http.StatusOK &&
						(strings.HasSuffix(r.Path, "/types") || strings.HasSuffix(r.Path, "availability-zone"))
				}
				e.eventually(installed, func() error { // on a busy machine polls take long
					if !slices.ContainsFunc(e.cloud.Log(), hasServed) {
						return errors.New("no request with a new login yet")
					}
					return e.hasNoCondition(ofSubject(s, "Manila", "Cinder") + "Quota")
				})
			}
			e.must(e.hasCondition(ofSubject(s, "Manila", "Cinder")+"CloudReachable", opv1.ConditionTrue, ""))
			e.must(e.hasCondition(ready, opv1.ConditionTrue, "AsExpected"))
		})
	}
}
