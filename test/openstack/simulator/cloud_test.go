package simulator

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
	blockzones "github.com/gophercloud/gophercloud/v2/openstack/blockstorage/v3/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/compute/v2/availabilityzones"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/tokens"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/apiversions"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/sharetypes"
	"github.com/gophercloud/gophercloud/v2/openstack/utils"
)

func TestLogin(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		config Config
		clouds Clouds
	}{
		"password":                       {clouds: Clouds{Auth: Password}},
		"application credential":         {clouds: Clouds{Auth: ApplicationCredential}},
		"application credential by name": {clouds: Clouds{Auth: NamedApplicationCredential}},
		"no region":                      {clouds: Clouds{NoRegion: true}},
		"second region": {
			config: Config{Regions: []string{"north", "south"}}, clouds: Clouds{Region: "south"},
		},
		"password with TLS": {config: Config{TLS: true}},
		"application credential and TLS": {
			config: Config{TLS: true}, clouds: Clouds{Auth: ApplicationCredential},
		},
		"a port for each service": {config: Config{SeparatePorts: true, TLS: true}},
		"a name in place of the address, and TLS": {
			config: Config{AdvertisedHost: "localhost", TLS: true},
		},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test.config.ShareTypes = named("default", "Größe/ß ü", "x y")
			_, client, ctx := run(t, test.config)
			got, err := typeNames(ctx, manilaClient(ctx, t, client, test.clouds))
			must(t, err)
			if diff := cmp.Diff([]string{"default", "Größe/ß ü", "x y"}, got); diff != "" {
				t.Errorf("share types (-want +got):\n%s", diff)
			}
			log, err := client.Log(ctx, 0)
			must(t, err)
			if last := log[len(log)-1]; test.clouds.Region != "" && last.Region != test.clouds.Region {
				t.Errorf("asked region %q, want %q", last.Region, test.clouds.Region)
			}
		})
	}
}

func TestRefusedLogin(t *testing.T) {
	t.Parallel()
	_, client, ctx := run(t, Config{})
	accepted, err := client.Credentials(ctx)
	must(t, err)
	good := gophercloud.AuthOptions{
		Username: accepted.UserName, Password: accepted.Password, DomainName: accepted.DomainName,
		TenantName: accepted.ProjectName,
	}
	tests := map[string]func(*gophercloud.AuthOptions){
		"wrong password": func(o *gophercloud.AuthOptions) { o.Password = "wrong" },
		"wrong user":     func(o *gophercloud.AuthOptions) { o.Username = "wrong" },
		"wrong domain":   func(o *gophercloud.AuthOptions) { o.DomainName = "wrong" },
		"wrong project":  func(o *gophercloud.AuthOptions) { o.TenantName = "wrong" },
		"domain scope": func(o *gophercloud.AuthOptions) {
			o.TenantName, o.Scope = "", &gophercloud.AuthScope{DomainID: accepted.DomainID}
		},
		"wrong secret": func(o *gophercloud.AuthOptions) {
			*o = gophercloud.AuthOptions{
				ApplicationCredentialID:     accepted.ApplicationCredentialID,
				ApplicationCredentialSecret: "wrong",
			}
		},
		"application credential with a scope": func(o *gophercloud.AuthOptions) {
			*o = gophercloud.AuthOptions{
				ApplicationCredentialID:     accepted.ApplicationCredentialID,
				ApplicationCredentialSecret: accepted.ApplicationCredentialSecret, TenantID: accepted.ProjectID,
			}
		},
	}
	info := client.Info()
	for name, spoil := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := good
			options.IdentityEndpoint = info.AuthURL
			if _, err := openstack.AuthenticatedClient(ctx, options); err != nil {
				t.Fatalf("logging in with the right credentials: %v", err)
			}
			spoil(&options)
			options.IdentityEndpoint = info.AuthURL
			_, err := openstack.AuthenticatedClient(ctx, options)
			if !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
				t.Errorf("got %v, want 401", err)
			}
		})
	}
}

func TestTokens(t *testing.T) {
	t.Parallel()
	forget := map[string]func(context.Context, *Simulator, chan<- time.Duration) error{
		"revoked by control": func(ctx context.Context, c *Simulator, _ chan<- time.Duration) error {
			_, err := c.RevokeTokens(ctx)
			return err
		},
		"expired": func(_ context.Context, _ *Simulator, clock chan<- time.Duration) error {
			clock <- time.Hour
			return nil
		},
	}
	for name, end := range forget {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			skip := make(chan time.Duration, 1)
			_, client, ctx := run(t, Config{ShareTypes: named("a"), Now: steppingClock(skip)})
			service := manilaClient(ctx, t, client, Clouds{})
			before := service.TokenID
			must(t, client.ResetLog(ctx))
			must(t, end(ctx, client, skip))
			_, err := typeNames(ctx, service)
			must(t, err)
			if service.TokenID == before {
				t.Error("the old token is still in use")
			}
			got := counters(ctx, t, client)
			want := map[string]int{"share 401": 1, "identity 201": 1, "share 200": 1}
			if diff := cmp.Diff(want, got.Statuses); diff != "" {
				t.Errorf("answers (-want +got):\n%s", diff)
			}
			if got.Logins != 1 {
				t.Errorf("%d logins, want 1", got.Logins)
			}
		})
	}
}

// steppingClock is a clock that jumps by what it is sent.
func steppingClock(skip <-chan time.Duration) func() time.Time {
	offset := make(chan time.Duration, 1)
	offset <- 0
	return func() time.Time {
		ahead := <-offset
		select {
		case step := <-skip:
			ahead += step
		default:
		}
		offset <- ahead
		return time.Now().Add(ahead)
	}
}

func TestTokenAPI(t *testing.T) {
	t.Parallel()
	_, client, ctx := run(t, Config{TokenTTL: 10 * time.Minute})
	provider, _, err := login(ctx, t, client, Clouds{})
	must(t, err)
	identity, err := openstack.NewIdentityV3(provider, gophercloud.EndpointOpts{})
	must(t, err)
	result := tokens.Get(ctx, identity, provider.TokenID)
	token, err := result.ExtractToken()
	must(t, err)
	if left := time.Until(token.ExpiresAt); left <= 9*time.Minute || left > 10*time.Minute {
		t.Errorf("the token expires in %s, want 10 minutes", left)
	}
	catalog, err := result.ExtractServiceCatalog()
	must(t, err)
	if len(catalog.Entries) != 4 {
		t.Errorf("the catalog has %d entries, want 4", len(catalog.Entries))
	}
	must(t, tokens.Revoke(ctx, identity, provider.TokenID).Err)
	if got := counters(ctx, t, client).Revocations; got != 1 {
		t.Errorf("%d revocations, want 1", got)
	}
	provider.ReauthFunc = nil
	err = tokens.Get(ctx, identity, provider.TokenID).Err
	if !gophercloud.ResponseCodeIs(err, http.StatusUnauthorized) {
		t.Errorf("got %v for a revoked token, want 401", err)
	}
}

func TestRotation(t *testing.T) {
	t.Parallel()
	for _, auth := range []Auth{Password, ApplicationCredential, NamedApplicationCredential} {
		t.Run(string(auth), func(t *testing.T) {
			t.Parallel()
			_, client, ctx := run(t, Config{ShareTypes: named("a")})
			service := manilaClient(ctx, t, client, Clouds{Auth: auth})
			rotated, err := client.RotateCredentials(ctx, Rotation{Password: "new"})
			must(t, err)
			if rotated.Password != "new" {
				t.Errorf("password is %q, want the given one", rotated.Password)
			}
			if _, err := typeNames(ctx, service); err == nil {
				t.Error("the old credentials still work")
			}
			if _, err := typeNames(ctx, manilaClient(ctx, t, client, Clouds{Auth: auth})); err != nil {
				t.Errorf("the new credentials: %v", err)
			}
		})
	}
}

func TestCatalogRemoval(t *testing.T) {
	t.Parallel()
	_, client, ctx := run(t, Config{ShareTypes: named("a")})
	must(t, client.RemoveFromCatalog(ctx, "sharev2"))
	provider, endpoint, err := login(ctx, t, client, Clouds{})
	must(t, err)
	_, err = openstack.NewSharedFileSystemV2(provider, endpoint)
	if missing := new(gophercloud.ErrEndpointNotFound); !errors.As(err, &missing) {
		t.Errorf("got %v, want no endpoint", err)
	}
	_, err = openstack.NewComputeV2(provider, endpoint)
	must(t, err)
	must(t, client.RestoreToCatalog(ctx, "sharev2"))
	_, err = typeNames(ctx, manilaClient(ctx, t, client, Clouds{}))
	must(t, err)
	if err := client.RemoveFromCatalog(ctx, "dns"); err == nil {
		t.Error("an unknown type was removed")
	}
}

func TestShareTypeChanges(t *testing.T) {
	t.Parallel()
	_, client, ctx := run(t, Config{ShareTypes: named("a", "b", "c")})
	service := manilaClient(ctx, t, client, Clouds{})
	expect := func(want ...string) {
		t.Helper()
		got, err := typeNames(ctx, service)
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("share types (-want +got):\n%s", diff)
		}
	}
	_, err := client.AddShareType(ctx, ShareType{
		Name: "d/é?&", Default: true, ExtraSpecs: map[string]string{"k": "v"},
	})
	must(t, err)
	_, err = client.AddShareType(ctx, ShareType{Name: "hidden", Private: true})
	must(t, err)
	expect("a", "b", "c", "d/é?&")
	must(t, client.SetShareTypeOrder(ctx, Reversed))
	expect("d/é?&", "c", "b", "a")

	_, err = client.AddShareType(ctx, ShareType{Name: "a"})
	if err == nil || !strings.Contains(err.Error(), "exists already") {
		t.Errorf("a second share type of the same name: got error %v", err)
	}
	if _, err := client.AddShareType(ctx, ShareType{Name: strings.Repeat("x", 256)}); err == nil {
		t.Error("a name of 256 characters was accepted")
	}
	standard, err := sharetypes.GetDefault(ctx, service).Extract()
	must(t, err)
	specs, err := sharetypes.GetExtraSpecs(ctx, service, standard.ID).Extract()
	must(t, err)
	if standard.Name != "d/é?&" || specs["k"] != "v" || specs[specServers] != "False" {
		t.Errorf("default share type %q with extra specs %v", standard.Name, specs)
	}
	must(t, client.RemoveShareType(ctx, "d/é?&"))
	expect("c", "b", "a")
	err = client.RemoveShareType(ctx, "d/é?&")
	if err == nil || !strings.Contains(err.Error(), "does not exist") {
		t.Errorf("removing a share type twice: got error %v", err)
	}

	must(t, client.SetShareTypeOrder(ctx, Shuffled))
	seen := map[string]bool{}
	for range 200 {
		names, err := typeNames(ctx, service)
		must(t, err)
		seen[strings.Join(names, "")] = true
		slices.Sort(names)
		if diff := cmp.Diff([]string{"a", "b", "c"}, names); diff != "" {
			t.Fatalf("share types (-want +got):\n%s", diff)
		}
	}
	if len(seen) < 2 {
		t.Errorf("200 shuffled listings came in one order: %v", seen)
	}
}

func TestMicroversions(t *testing.T) {
	t.Parallel()
	_, client, ctx := run(t, Config{ShareTypes: named("a"), ManilaMaxVersion: "2.50"})
	service := manilaClient(ctx, t, client, Clouds{})
	supported, err := utils.GetSupportedMicroversions(ctx, service)
	must(t, err)
	want := (utils.SupportedMicroversions{MaxMajor: 2, MaxMinor: 50, MinMajor: 2})
	if supported != want {
		t.Errorf("supported versions %v, want %v", supported, want)
	}
	page, err := apiversions.List(service).AllPages(ctx)
	must(t, err)
	versions, err := apiversions.ExtractAPIVersions(page)
	must(t, err)
	if len(versions) != 2 {
		t.Errorf("%d versions, want v1.0 and v2.0", len(versions))
	}
	old := []string{"os-share-type-access:is_public"}
	now := []string{"description", "is_default", "share_type_access:is_public"}
	tests := map[string]struct {
		status  int
		version string
		fields  []string
	}{
		"":       {200, "2.0", old},
		"2.6":    {200, "2.6", old},
		"2.7":    {200, "2.7", now[2:]},
		"2.50":   {200, "2.50", now},
		"latest": {200, "2.50", now},
		"2.51":   {406, "", nil},
		"1.0":    {406, "", nil},
		"2":      {400, "", nil},
		"2.07":   {400, "", nil},
	}
	for wanted, test := range tests {
		t.Run("version "+wanted, func(t *testing.T) {
			t.Parallel()
			status, version, fields := listTypes(ctx, t, *service, wanted)
			if status != test.status || version != test.version {
				t.Errorf("got status %d, version %q, want %d, %q", status, version, test.status, test.version)
			}
			if diff := cmp.Diff(test.fields, fields); diff != "" {
				t.Errorf("fields beside the usual (-want +got):\n%s", diff)
			}
		})
	}
}

// listTypes lists the share types and returns the fields that depend on the version.
func listTypes(
	ctx context.Context, t *testing.T, service gophercloud.ServiceClient, version string,
) (int, string, []string) {
	t.Helper()
	service.Microversion = version
	var content struct {
		ShareTypes []map[string]json.RawMessage `json:"share_types"`
	}
	response, err := service.Get(ctx, service.ServiceURL("types"), &content, nil)
	if refusal := (gophercloud.ErrUnexpectedResponseCode{}); errors.As(err, &refusal) {
		return refusal.Actual, "", nil
	}
	must(t, err)
	must(t, response.Body.Close())
	var fields []string
	for field := range content.ShareTypes[0] {
		if !slices.Contains([]string{"id", "name", "extra_specs", "required_extra_specs"}, field) {
			fields = append(fields, field)
		}
	}
	slices.Sort(fields)
	return response.StatusCode, response.Header.Get("X-OpenStack-Manila-API-Version"), fields
}

func TestZones(t *testing.T) {
	t.Parallel()
	_, client, ctx := run(t, Config{ComputeZones: []Zone{{Name: "az1"}, {Name: "az2"}}})
	provider, endpoint, err := login(ctx, t, client, Clouds{Auth: ApplicationCredential})
	must(t, err)
	compute, err := openstack.NewComputeV2(provider, endpoint)
	must(t, err)
	volume, err := openstack.NewBlockStorageV3(provider, endpoint)
	must(t, err)
	expect := func(wantCompute, wantVolume map[string]bool) {
		t.Helper()
		page, err := availabilityzones.List(compute).AllPages(ctx)
		must(t, err)
		computeZones, err := availabilityzones.ExtractAvailabilityZones(page)
		must(t, err)
		page, err = blockzones.List(volume).AllPages(ctx)
		must(t, err)
		volumeZones, err := blockzones.ExtractAvailabilityZones(page)
		must(t, err)
		gotCompute, gotVolume := map[string]bool{}, map[string]bool{}
		for _, zone := range computeZones {
			gotCompute[zone.ZoneName] = zone.ZoneState.Available
		}
		for _, zone := range volumeZones {
			gotVolume[zone.ZoneName] = zone.ZoneState.Available
		}
		if diff := cmp.Diff([]any{wantCompute, wantVolume}, []any{gotCompute, gotVolume}); diff != "" {
			t.Errorf("zones (-want +got):\n%s", diff)
		}
	}
	expect(map[string]bool{"az1": true, "az2": true}, map[string]bool{"nova": true})
	must(t, client.SetZones(ctx, Compute, Zone{Name: "az2", Unavailable: true}))
	must(t, client.SetZones(ctx, Volume))
	expect(map[string]bool{"az2": false}, map[string]bool{})
	if err := client.SetZones(ctx, Share); err == nil {
		t.Error("Manila was given zones")
	}
}

func TestVersionDiscovery(t *testing.T) {
	t.Parallel()
	cloud, client, ctx := run(t, Config{})
	accepted, err := client.Credentials(ctx)
	must(t, err)
	provider, err := openstack.AuthenticatedClient(ctx, gophercloud.AuthOptions{
		IdentityEndpoint: strings.TrimSuffix(cloud.Info().AuthURL, "/v3"), UserID: accepted.UserID,
		Password: accepted.Password, TenantID: accepted.ProjectID,
	})
	must(t, err)
	for service, endpoint := range cloud.Info().Endpoints {
		versions, err := utils.GetServiceVersions(ctx, provider, endpoint, true)
		if err != nil || len(versions) != 1 {
			t.Errorf("%s: got versions %v, error %v, want one version", service, versions, err)
		}
	}
}

func TestConfigFaults(t *testing.T) {
	t.Parallel()
	tests := map[string]Config{
		`region "v2"`:          {Regions: []string{"v2"}},
		`region "share"`:       {Regions: []string{"here", "share"}},
		`address "nowhere"`:    {Listen: "nowhere"},
		`version "2.x"`:        {ManilaMaxVersion: "2.x"},
		`type "a" exists`:      {ShareTypes: named("a", "a")},
		"token life -1s":       {TokenTTL: -time.Second},
		`region "a/b" cannot`:  {Regions: []string{"a/b"}},
		`share type name "": `: {ShareTypes: named("")},
	}
	for want, config := range tests {
		t.Run(want, func(t *testing.T) {
			t.Parallel()
			if _, err := New(config); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want an error with %q", err, want)
			}
		})
	}
}
