package simulator

import (
	"bytes"
	"context"
	"crypto/tls"
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
)

// patience bounds everything a test waits for.
const patience = 20 * time.Second

// run starts a simulator that ends with the test.
func run(t *testing.T, config Config) (*Simulator, *Simulator, context.Context) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	cloud, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	if err := cloud.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cloud.Close(); err != nil {
			t.Error(err)
		}
	})
	return cloud, cloud.Client(), ctx
}

// login logs in with gophercloud and a clouds.yaml from the simulator.
func login(
	ctx context.Context, t *testing.T, client *Simulator, options Clouds,
) (*gophercloud.ProviderClient, gophercloud.EndpointOpts, error) {
	t.Helper()
	info := client.Info()
	if info.TLS {
		options.CACert = filepath.Join(t.TempDir(), "ca.crt")
		ca, err := client.CA(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(options.CACert, ca, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	content, err := client.CloudsYAML(ctx, options)
	if err != nil {
		t.Fatal(err)
	}
	auth, endpoint, tlsConfig, err := clouds.Parse(
		clouds.WithCloudName("openstack"), clouds.WithCloudsYAML(bytes.NewReader(content)))
	if err != nil {
		t.Fatal(err)
	}
	auth.AllowReauth = true
	provider, err := config.NewProviderClient(ctx, auth, config.WithHTTPClient(browser(tlsConfig)))
	return provider, endpoint, err
}

// browser is an HTTP client with connections of its own.
func browser(tlsConfig *tls.Config) http.Client {
	return http.Client{Transport: &http.Transport{TLSClientConfig: tlsConfig}, Timeout: patience}
}

// manilaClient logs in and returns a Manila client.
func manilaClient(
	ctx context.Context, t *testing.T, client *Simulator, options Clouds,
) *gophercloud.ServiceClient {
	t.Helper()
	provider, endpoint, err := login(ctx, t, client, options)
	if err != nil {
		t.Fatal(err)
	}
	service, err := openstack.NewSharedFileSystemV2(provider, endpoint)
	if err != nil {
		t.Fatal(err)
	}
	return service
}

// typeNames lists the names of the share types, as Manila orders them.
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

// named makes share types.
func named(names ...string) []ShareType {
	var types []ShareType
	for _, name := range names {
		types = append(types, ShareType{Name: name})
	}
	return types
}

// set switches a fault on.
func set(ctx context.Context, t *testing.T, client *Simulator, fault Fault) Fault {
	t.Helper()
	added, err := client.SetFault(ctx, fault)
	if err != nil {
		t.Fatal(err)
	}
	return added
}

// must fails the test on an error of a control call.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// counters reads the counters.
func counters(ctx context.Context, t *testing.T, client *Simulator) Counters {
	t.Helper()
	result, err := client.Counters(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return result
}
