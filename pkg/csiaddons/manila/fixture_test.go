package manila

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/csi-addons/spec/lib/go/fence"
	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	gopheropenstack "github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	gophershares "github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/clock"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
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
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cloud.Close() })
	text := cloud.CloudsYAML(simulator.Clouds{})
	file := filepath.Join(t.TempDir(), "clouds.yaml")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	f := &fixture{T: t, cloud: cloud}
	f.client = openstack.NewClient(openstack.Source{CloudsFile: file}, clock.RealClock{})
	auth, endpoint, _, err := clouds.Parse(clouds.WithCloudName("openstack"),
		clouds.WithCloudsYAML(bytes.NewReader(text)))
	if err != nil {
		t.Fatal(err)
	}
	provider, err := config.NewProviderClient(t.Context(), auth)
	if err != nil {
		t.Fatal(err)
	}
	f.manila, err = gopheropenstack.NewSharedFileSystemV2(provider, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	f.manila.Microversion = "2.45"
	return f
}

// share creates a share of a cluster, or without a cluster, with access rules such as "rw
// 0.0.0.0/0".
func (f *fixture) share(cluster string, rules ...string) (id string) {
	f.Helper()
	return f.shareOf("NFS", cluster, rules...)
}

// shareOf creates a share with another protocol.
func (f *fixture) shareOf(protocol, cluster string, rules ...string) (id string) {
	f.Helper()
	options := gophershares.CreateOpts{ShareProto: protocol, Size: 1}
	if cluster != "" {
		options.Metadata = map[string]string{clusterKey: cluster}
	}
	created, err := gophershares.Create(f.Context(), f.manila, options).Extract()
	if err != nil {
		f.Fatal(err)
	}
	f.eventually(func() bool {
		share, err := gophershares.Get(f.Context(), f.manila, created.ID).Extract()
		return err == nil && share.Status == "available"
	})
	for _, r := range rules {
		f.allow(created.ID, "ip", r)
	}
	return created.ID
}

// allow adds an access rule, such as "rw 0.0.0.0/0", and waits until it is active.
func (f *fixture) allow(share, kind, rule string) {
	f.Helper()
	err := gophershares.GrantAccess(f.Context(), f.manila, share, gophershares.GrantAccessOpts{
		AccessType: kind, AccessLevel: rule[:2], AccessTo: rule[3:],
	}).Err
	if err != nil {
		f.Fatal(err)
	}
	f.eventually(func() bool {
		return !slices.ContainsFunc(f.list(share), func(r openstack.AccessRule) bool {
			return r.State != activeState
		})
	})
}

func (f *fixture) eventually(condition func() bool) {
	f.Helper()
	err := wait.PollUntilContextTimeout(f.Context(), time.Millisecond, patience, true,
		func(context.Context) (bool, error) { return condition(), nil })
	if err != nil {
		f.Fatal(err)
	}
}

// requests returns the requests that a controller sends.
func (f *fixture) requests() *openstack.Shares {
	f.Helper()
	requests, err := f.client.Shares(f.Context())
	if err != nil {
		f.Fatal(err)
	}
	return requests
}

func (f *fixture) list(share string) []openstack.AccessRule {
	f.Helper()
	rules, err := f.requests().Rules(f.Context(), share)
	if err != nil {
		f.Fatal(err)
	}
	return rules
}

// volume creates a PersistentVolume of a share.
func (f *fixture) volume(name, shareID string) {
	f.volumes = append(f.volumes, Volume{Name: name, ShareID: shareID})
}

// expectRules compares the access rules of a share. It also expects that no rule and no metadata of
// a fence is left.
func (f *fixture) expectRules(share string, want ...string) {
	f.Helper()
	var got []string
	for _, r := range f.list(share) {
		got = append(got, r.Level+" "+r.To)
		if len(r.Metadata) > 0 || r.State != activeState {
			f.Errorf("the access rule %v is not as it was", r)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("access rules (-want +got):\n%s", diff)
	}
	metadata := f.metadata(share)
	delete(metadata, clusterKey) // no fence changes it: see guarded
	if len(metadata) > 0 {
		f.Errorf("the share has the metadata %v", metadata)
	}
}

func (f *fixture) metadata(share string) map[string]string {
	f.Helper()
	found, err := gophershares.Get(f.Context(), f.manila, share).Extract()
	if err != nil {
		f.Fatal(err)
	}
	return found.Metadata
}

// setCluster moves a share to another cluster. The other metadata stay.
func (f *fixture) setCluster(share, id string) {
	f.Helper()
	f.must(gophershares.SetMetadata(f.Context(), f.manila, share, gophershares.SetMetadataOpts{
		Metadata: map[string]string{clusterKey: id},
	}).Err)
}

// access returns what a client may do with a share.
func (f *fixture) access(share, client string) string {
	f.Helper()
	level, _ := f.cloud.ShareAccess(share, netip.MustParseAddr(client))
	return string(level)
}

// expectAccess compares the access of the fenced client, its neighbor and a stranger.
func (f *fixture) expectAccess(share string, want ...string) {
	f.Helper()
	got := []string{
		f.access(share, fenced), f.access(share, neighbor), f.access(share, stranger),
	}
	if diff := cmp.Diff(want, got); diff != "" {
		f.Errorf("access of the fenced client, its neighbor and a stranger (-want +got):\n%s", diff)
	}
}

// controller returns a new controller, as after a restart.
func (f *fixture) controller() *Controller {
	c := NewController(Config{
		Cluster: cluster, MaxRules: DefaultMaxRules,
		Volumes:       func(context.Context) ([]Volume, error) { return f.volumes, nil },
		PluginVersion: reports("0.9.0@v1.36.0", nil),
	}, f.client)
	c.interval, c.settle, c.limit = time.Millisecond, patience, patience
	c.connect = func(ctx context.Context) (shares, error) {
		requests, err := f.client.Shares(ctx)
		return guarded{f.T, requests}, err
	}
	return c
}

// guarded are requests that fail the test if they change the ID of the cluster: OpenShift's
// installer deletes the shares with the ID of a cluster.
type guarded struct {
	t *testing.T
	shares
}

func (g guarded) SetMetadata(ctx context.Context, id string, entries map[string]string) error {
	if _, found := entries[clusterKey]; found {
		g.t.Errorf("a request writes the ID of the cluster to share %s", id)
	}
	return g.shares.SetMetadata(ctx, id, entries)
}

func (g guarded) DeleteMetadata(ctx context.Context, id, key string) error {
	if key == clusterKey {
		g.t.Errorf("a request deletes the ID of the cluster from share %s", id)
	}
	return g.shares.DeleteMetadata(ctx, id, key)
}

func cidrs(texts ...string) (found []*fence.CIDR) {
	for _, text := range texts {
		found = append(found, &fence.CIDR{Cidr: text})
	}
	return found
}

func (f *fixture) fence(c *Controller, texts ...string) error {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	_, err := c.FenceClusterNetwork(ctx, &fence.FenceClusterNetworkRequest{Cidrs: cidrs(texts...)})
	return err
}

func (f *fixture) unfence(c *Controller, texts ...string) error {
	ctx, cancel := context.WithTimeout(f.Context(), patience)
	defer cancel()
	_, err := c.UnfenceClusterNetwork(ctx,
		&fence.UnfenceClusterNetworkRequest{Cidrs: cidrs(texts...)})
	return err
}

// must fails the test unless the error is nil.
func (f *fixture) must(err error) {
	f.Helper()
	if err != nil {
		f.Fatal(err)
	}
}

// noCrash is more than the number of changes of any operation.
const noCrash = 1000

var errCrash = errors.New("the process ended")

// crashing are requests that end after a number of changes, as if the process ended.
type crashing struct {
	shares
	// after is called after each change.
	after func()

	mu   sync.Mutex
	left int
}

// crashAfter returns a controller that ends after a number of changes.
func (f *fixture) crashAfter(changes int, after func()) (*Controller, *crashing) {
	f.Helper()
	requests := &crashing{shares: guarded{f.T, f.requests()}, left: changes, after: after}
	c := f.controller()
	c.connect = func(context.Context) (shares, error) { return requests, nil }
	return c, requests
}

func (c *crashing) change(request func() error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.left == 0 {
		return errCrash
	}
	c.left--
	if err := request(); err != nil {
		return fmt.Errorf("changing: %w", err)
	}
	c.after()
	return nil
}

func (c *crashing) Grant(ctx context.Context, id string, rule openstack.AccessRule) error {
	return c.change(func() error { return c.shares.Grant(ctx, id, rule) })
}

func (c *crashing) Revoke(ctx context.Context, id, ruleID string) error {
	return c.change(func() error { return c.shares.Revoke(ctx, id, ruleID) })
}

func (c *crashing) SetMetadata(ctx context.Context, id string, entries map[string]string) error {
	return c.change(func() error { return c.shares.SetMetadata(ctx, id, entries) })
}

func (c *crashing) DeleteMetadata(ctx context.Context, id, key string) error {
	return c.change(func() error { return c.shares.DeleteMetadata(ctx, id, key) })
}

// listing are requests that call a function after each list of access rules.
type listing struct {
	shares

	listed func()
}

func (l *listing) Rules(ctx context.Context, id string) ([]openstack.AccessRule, error) {
	defer l.listed()
	return l.shares.Rules(ctx, id)
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
	if status.Code(err) != code || !strings.Contains(err.Error(), text) {
		f.Errorf("the error is %v, want %v with %q", err, code, text)
	}
}
