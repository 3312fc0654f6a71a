package simulator

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	"github.com/gophercloud/gophercloud/v2/openstack/config"
	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/sharetypes"
)

// patience bounds everything a test waits for, which includes the time until a parallel part of it
// begins.
const patience = 5 * time.Minute

// run starts a simulator that ends with the test.
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

// login logs in with gophercloud and a clouds.yaml from the simulator.
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

// manilaClient logs in and returns a Manila client.
func manilaClient(
	ctx context.Context, t *testing.T, cloud *Simulator, options Clouds,
) *gophercloud.ServiceClient {
	t.Helper()
	provider, endpoint, err := login(ctx, t, cloud, options)
	must(t, err)
	service, err := openstack.NewSharedFileSystemV2(provider, endpoint)
	must(t, err)
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

// set activates a fault.
func set(t *testing.T, cloud *Simulator, fault Fault) Fault {
	t.Helper()
	added, err := cloud.SetFault(fault)
	must(t, err)
	return added
}

// post sends a request with a body.
func post(
	ctx context.Context, t *testing.T, url, content string,
) (status int, header http.Header, body string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(content))
	must(t, err)
	response, err := http.DefaultClient.Do(request)
	must(t, err)
	defer response.Body.Close()
	read, err := io.ReadAll(response.Body)
	must(t, err)
	return response.StatusCode, response.Header, string(read)
}

// must fails the test on an error.
func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
