package manila

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// slowCloud answers each request about a share after some time.
type slowCloud struct {
	shares

	delay    time.Duration
	mu       sync.Mutex
	all      map[string]*slowShare
	requests int // about shares
}

type slowShare struct {
	openstack.Share

	rules  []openstack.AccessRule
	number int
}

func (s *slowCloud) request(ctx context.Context, id string, work func(*slowShare)) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(s.delay):
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
	work(s.all[id])
	return nil
}

func (s *slowCloud) List(_ context.Context, key, value string) (found []openstack.Share, _ error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, id := range slices.Sorted(maps.Keys(s.all)) {
		if share := s.all[id].Share; share.Metadata[key] == value {
			share.Metadata = maps.Clone(share.Metadata)
			found = append(found, share)
		}
	}
	return found, nil
}

func (s *slowCloud) Rules(ctx context.Context, id string,
) (found []openstack.AccessRule, err error) {
	return found, s.request(ctx, id, func(share *slowShare) { found = slices.Clone(share.rules) })
}

func (s *slowCloud) Grant(ctx context.Context, id string, rule openstack.AccessRule) error {
	return s.request(ctx, id, func(share *slowShare) {
		share.number++
		rule.ID, rule.State = fmt.Sprint(share.number), activeState
		share.rules = append(share.rules, rule)
	})
}

func (s *slowCloud) Revoke(ctx context.Context, id, ruleID string) error {
	return s.request(ctx, id, func(share *slowShare) {
		share.rules = slices.DeleteFunc(share.rules,
			func(r openstack.AccessRule) bool { return r.ID == ruleID })
	})
}

func (s *slowCloud) SetMetadata(ctx context.Context, id string, entries map[string]string) error {
	return s.request(ctx, id, func(share *slowShare) { maps.Copy(share.Metadata, entries) })
}

// newSlowCloud returns a cloud with shares of the cluster, which everybody may use.
func newSlowCloud(number int, delay time.Duration) *slowCloud {
	cloud := &slowCloud{delay: delay, all: map[string]*slowShare{}}
	for i := range number {
		id := fmt.Sprintf("share-%05d", i)
		cloud.all[id] = &slowShare{
			Share: openstack.Share{
				ID: id, Protocol: protocol, Metadata: map[string]string{clusterKey: cluster},
			},
			rules: []openstack.AccessRule{{
				ID: "0", Type: ipType, To: "0.0.0.0/0", Level: readWrite, State: activeState,
			}},
		}
	}
	return cloud
}

func (s *slowCloud) controller() *Controller {
	c := NewController(Config{
		Cluster: cluster, MaxRules: 100, // too few for one IPv6 address of ::/0
		Volumes:       func(context.Context) ([]Volume, error) { return nil, nil },
		PluginVersion: reports("0.9.0@v1.36.0", nil),
	}, nil)
	c.connect = func(context.Context) (shares, error) { return s, nil }
	return c
}

func (s *slowCloud) fence(ctx context.Context, networks ...string) error {
	_, err := s.controller().FenceClusterNetwork(ctx,
		&fence.FenceClusterNetworkRequest{Cidrs: cidrs(networks...)})
	return err
}

// complete calls until a call succeeds, as the controller does: a call ends at its deadline. Each
// answer says how far it is.
func (s *slowCloud) complete(t *testing.T, call func(context.Context, ...string) error) {
	t.Helper()
	const callTimeout = 15 * time.Minute
	all := fmt.Sprintf("of %d shares", len(s.all))
	for left := len(s.all); ; {
		ctx, cancel := context.WithTimeout(t.Context(), callTimeout)
		start := time.Now()
		err := call(ctx, fenced)
		cancel()
		if err == nil {
			return
		}
		before, took := left, time.Since(start)
		_, _ = fmt.Sscanf(status.Convert(err).Message(), "%d of", &left)
		assert.Assert(t, status.Code(err) == codes.DeadlineExceeded && left < before &&
			took <= callTimeout-answerTime && strings.Contains(err.Error(), all),
			"after %v the error is %v", took, err)
	}
}

// The time is that of 10,000 shares whose requests take 0.3 s, with a fourth of the work.
func TestManySharesOfASlowCloudAreFencedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 165 * time.Minute
		cloud := newSlowCloud(2500, 1200*time.Millisecond)
		began := time.Now()
		cloud.complete(t, cloud.fence)
		assert.Check(t, time.Since(began) <= limit, "the fence took %v", time.Since(began))
	})
}

// Of a rack of 20 nodes, one cannot be fenced. The controller calls again for the others.
func TestRefusedNetworkAtMostDoublesTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const number, hard = 1000, "fd00::1/128"
		var rack []string
		for i := range 19 {
			rack = append(rack, fmt.Sprintf("10.0.0.%d/32", i))
		}
		newCloud := func() *slowCloud {
			cloud := newSlowCloud(number, 300*time.Millisecond)
			share := cloud.all["share-00500"]
			share.rules = append(share.rules, openstack.AccessRule{
				ID: "1", Type: ipType, To: "::/0", Level: readWrite, State: activeState,
			})
			return cloud
		}
		start := time.Now()
		assert.NilError(t, newCloud().fence(t.Context(), rack...))
		alone := time.Since(start)
		cloud := newCloud()
		start = time.Now()
		err := cloud.fence(t.Context(), append(rack, hard)...)
		assert.Assert(t, is.DeepEqual([]string{hard}, refusedNetworks(err)), "refused networks: %v", err)
		assert.NilError(t, cloud.fence(t.Context(), rack...))
		if took := time.Since(start); took > 2*alone {
			t.Errorf("with a refused network the fence took %v instead of %v", took, alone)
		} else {
			t.Logf("alone %v, with a refused network %v", alone, took)
		}
	})
}
