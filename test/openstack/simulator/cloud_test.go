package simulator

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack"
)

func TestLoginReturnsTokenAndCatalog(t *testing.T) {
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
			cloud, ctx := run(t, test.config)
			got, err := typeNames(ctx, manilaClient(ctx, t, cloud, test.clouds))
			must(t, err)
			if diff := cmp.Diff([]string{"default", "Größe/ß ü", "x y"}, got); diff != "" {
				t.Errorf("share types (-want +got):\n%s", diff)
			}
			log := cloud.Log()
			if last := log[len(log)-1]; test.clouds.Region != "" && last.Region != test.clouds.Region {
				t.Errorf("asked region %q, want %q", last.Region, test.clouds.Region)
			}
		})
	}
}

func TestIssuedTokensIncludeRevokedOnes(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	var want []string
	for range 2 {
		provider, _, err := login(ctx, t, cloud, Clouds{})
		must(t, err)
		want = append(want, provider.Token())
		cloud.RevokeTokens()
	}
	if diff := cmp.Diff(want, cloud.IssuedTokens()); diff != "" {
		t.Errorf("tokens (-want +got):\n%s", diff)
	}
}

func TestWrongCredentialsAreRefused(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{})
	accepted := cloud.Credentials()
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
	info := cloud.Info()
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

func TestShareTypeChanges(t *testing.T) {
	t.Parallel()
	cloud, ctx := run(t, Config{ShareTypes: named("a", "b")})
	service := manilaClient(ctx, t, cloud, Clouds{})
	expect := func(want ...string) {
		t.Helper()
		got, err := typeNames(ctx, service)
		must(t, err)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("share types (-want +got):\n%s", diff)
		}
	}
	must(t, cloud.AddShareType(ShareType{Name: "d/é?&"}))
	must(t, cloud.AddShareType(ShareType{Name: "hidden", Private: true}))
	expect("a", "b", "d/é?&")
	cloud.SetShareTypeOrder(Reversed)
	expect("d/é?&", "b", "a")
	must(t, cloud.RemoveShareType("d/é?&"))
	expect("b", "a")

	if err := cloud.AddShareType(ShareType{Name: "a"}); err == nil {
		t.Error("a second share type of the same name was added")
	}
	if err := cloud.RemoveShareType("d/é?&"); err == nil {
		t.Error("a share type was removed twice")
	}

	cloud.SetShareTypeOrder(Shuffled)
	orders := map[string]bool{}
	for range 200 {
		names, err := typeNames(ctx, service)
		must(t, err)
		orders[strings.Join(names, "")] = true
	}
	if diff := cmp.Diff(map[string]bool{"ab": true, "ba": true}, orders); diff != "" {
		t.Errorf("orders of 200 shuffled lists (-want +got):\n%s", diff)
	}
}
