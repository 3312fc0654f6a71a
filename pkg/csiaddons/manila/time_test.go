package manila

import (
	"context"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/test/openstack/sharecloud"
)

// cloud is a Manila with a simulated clock.
type cloud struct{ *sharecloud.Cloud }

// newCloud returns a cloud with shares of the cluster, which everybody may use. The backend of each
// second share is b.
func newCloud(number int, config sharecloud.Config) *cloud {
	c := &cloud{sharecloud.New(config)}
	for i := range number {
		c.share(shareID(i), string("ab"[i%2]))
	}
	return c
}

func (c *cloud) share(id, backend string) {
	c.Create(sharecloud.Share{
		ID: id, Backend: backend, Rules: []string{"rw 0.0.0.0/0"},
		Metadata: map[string]string{shares.ClusterKey: cluster},
	})
}

func shareID(i int) string { return fmt.Sprintf("share-%05d", i) }

func (c *cloud) controller() *Controller {
	return NewController(Config{
		Cluster: cluster, MaxRules: 100, // too few for one IPv6 address of ::/0
		Volumes:       func(context.Context) ([]Volume, error) { return nil, nil },
		PluginVersion: reports("0.9.0@v1.36.0", nil),
		Connect:       func(context.Context) (Shares, error) { return c.Shares(""), nil },
	})
}

func (c *cloud) fence(ctx context.Context, networks ...string) error {
	return fenceBy(ctx, c.controller(), networks...)
}

func (c *cloud) unfence(ctx context.Context, networks ...string) error {
	return unfenceBy(ctx, c.controller(), networks...)
}

// admits returns the number of some shares that admit a client.
func (c *cloud) admits(client string, number int) (count int) {
	for i := range number {
		if level, _ := c.Access(shareID(i), netip.MustParseAddr(client)); level != "" {
			count++
		}
	}
	return count
}

// complete calls until a call succeeds, as the controller does: a call ends at its deadline. Each
// answer says how far it is.
func (c *cloud) complete(t *testing.T, number int, call func(context.Context, ...string) error) {
	t.Helper()
	const callTimeout = 15 * time.Minute
	all := fmt.Sprintf("of %d shares", number)
	for left := number; ; {
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

func slow() sharecloud.Config { return sharecloud.Config{RequestTime: 300 * time.Millisecond} }

// The time is that of 10,000 shares whose requests take 0.3 s, with a fourth of the work.
func TestManySharesOfASlowCloudAreFencedInTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const limit = 165 * time.Minute
		cloud := newCloud(2500, sharecloud.Config{RequestTime: 1200 * time.Millisecond})
		began := time.Now()
		cloud.complete(t, 2500, cloud.fence)
		assert.Check(t, time.Since(began) <= limit, "the fence took %v", time.Since(began))
	})
}

// Of a rack of 20 nodes, one cannot be fenced. The controller calls again for the others.
func TestRefusedNetworkAtMostDoublesTheTime(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const number, hard = 1000, "fd00::1/128" // 112 rules are too many
		var rack []string
		for i := range 19 {
			rack = append(rack, fmt.Sprintf("10.0.0.%d/32", i))
		}
		special := func() *cloud {
			cloud := newCloud(number, slow())
			cloud.Allow(shareID(500), "rw fd00::/16")
			return cloud
		}
		start := time.Now()
		assert.NilError(t, special().fence(t.Context(), rack...))
		alone := time.Since(start)
		cloud := special()
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
