package manila

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/gophercloud/gophercloud/v2"
	gophershares "github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	"k8s.io/utils/clock"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
	"github.com/openstack-csi/csi-operator/test/openstack/administrator"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

const (
	// patience bounds every wait, for a busy machine.
	patience = time.Minute
	cluster  = "blue"
	fenced   = "10.0.0.5"
	neighbor = "10.0.0.6"
	stranger = "192.168.1.1"
)

// fixture is a simulated cloud and the fence of its shares.
type fixture struct {
	*testing.T

	cloud  *simulator.Simulator
	manila *gophercloud.ServiceClient
	client *openstack.Client
	// volumes are the PersistentVolumes of the cluster.
	volumes []Volume
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	cloud, err := simulator.New(simulator.Config{ShareTypes: []simulator.ShareType{{Name: "default"}}})
	if err == nil {
		err = cloud.Start(t.Context())
	}
	assert.NilError(t, err)
	t.Cleanup(func() { _ = cloud.Close() })
	text := cloud.CloudsYAML(simulator.Clouds{})
	f := &fixture{T: t, cloud: cloud}
	login, err := clouds.Content{Data: map[string][]byte{clouds.Key: text}}.Login()
	f.must(err)
	f.client = openstack.NewClient(openstack.Fixed(openstack.Access{Login: login}),
		openstack.NewBackoff(clock.RealClock{}))
	f.manila, err = administrator.Shares(t.Context(), text)
	f.must(err)
	return f
}

// share creates a share of a cluster, or of none, with access rules such as "rw 0.0.0.0/0".
func (f *fixture) share(cluster string, rules ...string) (id string) {
	f.Helper()
	return f.shareOf("NFS", cluster, rules...)
}

func (f *fixture) shareOf(protocol, cluster string, rules ...string) (id string) {
	f.Helper()
	options := gophershares.CreateOpts{ShareProto: protocol, Size: 1}
	if cluster != "" {
		options.Metadata = map[string]string{shares.ClusterKey: cluster}
	}
	id, err := administrator.CreateShare(f.Context(), f.manila, options)
	f.must(err)
	for _, r := range rules {
		f.allow(id, ipType, r)
	}
	return id
}

// allow adds an access rule, such as "rw 0.0.0.0/0", and waits until it is active.
func (f *fixture) allow(share, kind, rule string) {
	f.Helper()
	_, err := administrator.Allow(f.Context(), f.manila, share, kind, rule)
	f.must(err)
}

// requests returns the requests that a controller sends.
func (f *fixture) requests() *shares.Requests {
	f.Helper()
	requests, err := shares.New(f.Context(), f.client)
	f.must(err)
	return requests
}

func (f *fixture) list(share string) []shares.AccessRule {
	f.Helper()
	rules, err := f.requests().Rules(f.Context(), share)
	f.must(err)
	return rules
}

func (f *fixture) volume(name, shareID string) {
	f.volumes = append(f.volumes, Volume{Name: name, ShareID: shareID, Bound: true})
}

// expectRules compares the access rules of a share. No rule and no metadata of a fence may be left.
func (f *fixture) expectRules(share string, want ...string) {
	f.Helper()
	var got []string
	for _, r := range f.list(share) {
		got = append(got, r.Level+" "+r.To)
		assert.Check(f, len(r.Metadata) == 0 && r.State == activeState, "the access rule %v", r)
	}
	slices.Sort(got)
	slices.Sort(want)
	assert.Check(f, is.DeepEqual(want, got), "access")
	metadata := f.metadata(share)
	delete(metadata, shares.ClusterKey) // no fence changes it: see observed
	assert.Check(f, len(metadata) == 0, "the share has the metadata %v", metadata)
}

func (f *fixture) metadata(share string) map[string]string {
	f.Helper()
	found, err := gophershares.Get(f.Context(), f.manila, share).Extract()
	f.must(err)
	return found.Metadata
}

// access returns what a client may do with a share.
func (f *fixture) access(share, client string) string {
	f.Helper()
	level, _ := f.cloud.ShareAccess(share, netip.MustParseAddr(client))
	return level
}

// expectAccess compares the access of the fenced client, its neighbor and a stranger.
func (f *fixture) expectAccess(share string, want ...string) {
	f.Helper()
	got := []string{
		f.access(share, fenced), f.access(share, neighbor), f.access(share, stranger),
	}
	assert.Check(f, is.DeepEqual(want, got),
		"access of the fenced client, its neighbor and a stranger")
}

// controller returns a new controller, as after a restart.
func (f *fixture) controller() *Controller {
	c := NewController(Config{
		Cluster: cluster, MaxRules: DefaultMaxRules,
		Volumes:       func(context.Context) ([]Volume, error) { return f.volumes, nil },
		PluginVersion: reports("0.9.0@v1.36.0", nil),
		Connect: func(ctx context.Context) (Shares, error) {
			requests, err := shares.New(ctx, f.client)
			return &observed{Shares: requests, t: f.T, left: noCrash, after: func() {}}, err
		},
	})
	c.pace = pace{poll: time.Millisecond, patience: patience}
	return c
}

func cidrs(texts ...string) (found []*fence.CIDR) {
	for _, text := range texts {
		found = append(found, &fence.CIDR{Cidr: text})
	}
	return found
}

func fenceBy(ctx context.Context, c *Controller, texts ...string) error {
	_, err := c.FenceClusterNetwork(ctx, &fence.FenceClusterNetworkRequest{Cidrs: cidrs(texts...)})
	return err
}

func unfenceBy(ctx context.Context, c *Controller, texts ...string) error {
	_, err := c.UnfenceClusterNetwork(ctx,
		&fence.UnfenceClusterNetworkRequest{Cidrs: cidrs(texts...)})
	return err
}

func (f *fixture) fence(c *Controller, texts ...string) error {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	return fenceBy(ctx, c, texts...)
}

func (f *fixture) unfence(c *Controller, texts ...string) error {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	return unfenceBy(ctx, c, texts...)
}

func (f *fixture) must(err error) {
	f.Helper()
	assert.NilError(f, err)
}

// noCrash is more than the number of changes of any operation.
const noCrash = 1000

var errCrash = errors.New("the process ended")

// observed are requests that end after a number of changes, as if the process ended. They fail the
// test if they change the ID of the cluster: OpenShift's installer deletes the shares with the ID
// of a cluster.
type observed struct {
	Shares

	t *testing.T
	// after is called after each change.
	after func()

	mu   sync.Mutex
	left int
}

// crashAfter returns a controller that ends after a number of changes.
func (f *fixture) crashAfter(changes int, after func()) (*Controller, *observed) {
	f.Helper()
	requests := &observed{Shares: f.requests(), t: f.T, left: changes, after: after}
	c := f.controller()
	c.config.Connect = func(context.Context) (Shares, error) { return requests, nil }
	return c, requests
}

func (o *observed) change(request func() error) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.left == 0 {
		return errCrash
	}
	o.left--
	if err := request(); err != nil {
		return fmt.Errorf("changing: %w", err)
	}
	o.after()
	return nil
}

func (o *observed) Grant(ctx context.Context, id string, rule shares.AccessRule) error {
	return o.change(func() error { return o.Shares.Grant(ctx, id, rule) })
}

func (o *observed) Revoke(ctx context.Context, id, ruleID string) error {
	return o.change(func() error { return o.Shares.Revoke(ctx, id, ruleID) })
}

func (o *observed) SetMetadata(ctx context.Context, id string, entries map[string]string) error {
	_, found := entries[shares.ClusterKey]
	assert.Check(o.t, !found, "a request writes the ID of the cluster to share %s", id)
	return o.change(func() error { return o.Shares.SetMetadata(ctx, id, entries) })
}

func (o *observed) DeleteMetadata(ctx context.Context, id, key string) error {
	assert.Check(o.t, key != shares.ClusterKey,
		"a request deletes the ID of the cluster from share %s", id)
	return o.change(func() error { return o.Shares.DeleteMetadata(ctx, id, key) })
}

// fault sets a fault of requests about a share.
func (f *fixture) fault(fault simulator.Fault) (id string) {
	f.Helper()
	fault.Service = simulator.Share
	set, err := f.cloud.SetFault(fault)
	f.must(err)
	return set.ID
}

// refused fails the test unless an error has a code, and contains a text.
func (f *fixture) refused(err error, code codes.Code, text string) {
	f.Helper()
	assert.Check(f, status.Code(err) == code && strings.Contains(err.Error(), text),
		"the error is %v, want %v with %q", err, code, text)
}
