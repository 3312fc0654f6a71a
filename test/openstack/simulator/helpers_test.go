package simulator

import (
	"bytes"
	"context"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/sharetypes"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/util/wait"
)

// patience bounds everything a test waits for, also for the begin of its parallel parts.
const patience = 5 * time.Minute

func run(t *testing.T, config Config) (*Simulator, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cloud, err := New(config)
	must(t, err)
	must(t, cloud.Start(t.Context()))
	t.Cleanup(func() { must(t, cloud.Close()) })
	return cloud, ctx
}

func login(
	ctx context.Context, t *testing.T, cloud *Simulator, options Clouds,
) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	t.Helper()
	if cloud.Info().TLS {
		options.CACert = filepath.Join(t.TempDir(), "ca.crt")
		must(t, os.WriteFile(options.CACert, cloud.CA(), 0o600))
	}
	auth, endpoint, tlsConfig, err := clouds.Parse(clouds.WithCloudName("openstack"),
		clouds.WithCloudsYAML(bytes.NewReader(cloud.CloudsYAML(options))))
	must(t, err)
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(http.Client{
		Transport: &http.Transport{TLSClientConfig: tlsConfig}, Timeout: patience,
	}))
	return provider, endpoint, err
}

func manilaClient(
	ctx context.Context, t *testing.T, cloud *Simulator,
) *gophercloud.ServiceClient {
	t.Helper()
	return clientOf(ctx, t, cloud, openstack.NewSharedFileSystemV2, "")
}

func typeNames(ctx context.Context, service *gophercloud.ServiceClient) ([]string, error) {
	page, err := sharetypes.List(service, sharetypes.ListOpts{}).AllPages(ctx)
	if err != nil {
		return nil, err
	}
	types, err := sharetypes.ExtractShareTypes(page)
	if err != nil {
		return nil, err
	}
	names := []string{}
	for _, shareType := range types {
		names = append(names, shareType.Name)
	}
	return names, nil
}

func named(names ...string) []ShareType {
	var types []ShareType
	for _, name := range names {
		types = append(types, ShareType{Name: name})
	}
	return types
}

func set(t *testing.T, cloud *Simulator, fault Fault) Fault {
	t.Helper()
	added, err := cloud.SetFault(fault)
	must(t, err)
	return added
}

// clientOf logs in and returns a client of a service with a microversion.
func clientOf(
	ctx context.Context, t *testing.T, cloud *Simulator, create func(
		*gophercloud.ProviderClient, gophercloud.EndpointOpts,
	) (*gophercloud.ServiceClient, error), version string,
) *gophercloud.ServiceClient {
	t.Helper()
	provider, endpoint, err := login(ctx, t, cloud, Clouds{})
	must(t, err)
	client, err := create(provider, endpoint)
	must(t, err)
	client.Microversion = version
	return client
}

// eventually waits until a function returns the wanted value.
func eventually[T comparable](ctx context.Context, t *testing.T, want T, get func() (T, error)) {
	t.Helper()
	var got T
	err := wait.PollUntilContextCancel(ctx, 5*time.Millisecond, true,
		func(context.Context) (bool, error) {
			var err error
			got, err = get()
			return got == want, err
		})
	assert.NilError(t, err, "got %v, want %v", got, want)
}

func must(t *testing.T, err error) {
	t.Helper()
	assert.NilError(t, err)
}
