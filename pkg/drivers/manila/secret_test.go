package manila

import (
	"maps"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const authURL = "https://keystone.example.com:5000/v3"

// cloudsYAML has one entry, called openstack, with these lines in it and in its auth.
func cloudsYAML(entry, auth string) string {
	return "clouds: {openstack: {" + entry + " auth: {auth_url: '" + authURL + "', " + auth + "}}}"
}

const aPassword = "username: u, password: p, project_name: prj, "

// translation is a cloud and the expected Secret.
type translation struct {
	name, entry, auth string
	ca                authority
	want              map[string]string
}

// with returns a password login with more keys.
func with(more ...map[string]string) map[string]string {
	secret := map[string]string{
		"os-authURL": authURL, "os-userName": "u", "os-password": "p", "os-projectName": "prj",
	}
	for _, m := range more {
		maps.Copy(secret, m)
	}
	return secret
}

func domainID(id string) map[string]string {
	return map[string]string{"os-domainID": id, "os-userDomainID": id, "os-projectDomainID": id}
}

func domainName(name string) map[string]string {
	return map[string]string{
		"os-domainName": name, "os-userDomainName": name, "os-projectDomainName": name,
	}
}

func useClouds() map[string]string {
	return map[string]string{
		"os-useClouds": "true", "os-cloud": "openstack", "os-cloudsFile": "/etc/openstack/clouds.yaml",
	}
}

func TestPasswordLoginIsTranslated(t *testing.T) {
	t.Parallel()
	checkTranslations(t, []translation{
		{
			name: "password with names", entry: "region_name: R,",
			auth: aPassword + "user_domain_name: D, project_domain_name: P",
			want: with(domainName("D"), map[string]string{"os-projectDomainName": "P", "os-region": "R"}),
		},
		{
			name: "password with IDs",
			auth: "username: u, password: p, project_id: i, user_domain_id: d, project_domain_name: E",
			want: map[string]string{
				"os-authURL": authURL, "os-userName": "u", "os-password": "p", "os-projectID": "i",
				"os-domainID": "d", "os-userDomainID": "d",
			},
		},
		{name: "no region", auth: aPassword + "domain_name: D", want: with(domainName("D"))},
		{name: "one domain by ID", auth: aPassword + "domain_id: d", want: with(domainID("d"))},
		{
			name: "user's domain, and one of both", auth: aPassword + "domain_name: D, user_domain_name: U",
			want: with(domainName("U"), map[string]string{"os-projectDomainName": "D"}),
		},
		// The driver would send two domains of the project.
		{
			name: "one domain by ID, one by name",
			auth: aPassword + "user_domain_id: d, project_domain_name: P", want: useClouds(),
		},
		{
			name: "one domain by name, one by default",
			auth: aPassword + "user_domain_name: U, default_domain: d", want: useClouds(),
		},
		{
			name: "default domain", auth: aPassword + "default_domain: default",
			want: with(domainID("default")),
		},
	})
}

func TestTranslatePasswordEntry(t *testing.T) {
	t.Parallel()
	checkTranslations(t, []translation{
		{
			name: "interface", entry: "interface: internal,", auth: aPassword + "domain_id: d",
			want: with(domainID("d"), map[string]string{"os-endpointType": "internal"}),
		},
		{
			name: "endpoint type with suffix", entry: "endpoint_type: publicURL,",
			auth: aPassword + "domain_id: d",
			want: with(domainID("d"), map[string]string{"os-endpointType": "public"}),
		},
		{
			name: "not verified", entry: "verify: false,", auth: aPassword + "domain_id: d",
			want: with(domainID("d"), map[string]string{"os-TLSInsecure": "true"}),
		},
		{
			name: "verified", entry: "verify: true,", auth: aPassword + "domain_id: d",
			want: with(domainID("d")),
		},
		{
			name: "CA", entry: "cacert: /home/installer/ca.pem,", auth: aPassword + "domain_id: d",
			ca:   authority{aCA, mountedCA},
			want: with(domainID("d"), map[string]string{"os-certAuthority": aCA}),
		},
		{
			name: "the installer's CA does not count", entry: "cacert: /home/installer/ca.pem,",
			auth: aPassword + "domain_id: d",
			want: with(domainID("d")),
		},
	})
}

func TestTranslateOtherLogin(t *testing.T) {
	t.Parallel()
	credential := map[string]string{
		"os-authURL": authURL, "os-applicationCredentialID": "i", "os-applicationCredentialSecret": "s",
	}
	checkTranslations(t, []translation{
		{
			name: "application credential",
			auth: "application_credential_id: i, application_credential_secret: s", want: credential,
		},
		{
			// The driver refuses a Secret with a user and no password.
			name: "application credential with what it does not need", want: credential,
			auth: "application_credential_id: i, application_credential_secret: s, username: u, " +
				"user_domain_name: D, project_id: p",
		},
		{
			name: "application credential with region and CA", entry: "region_name: R,",
			ca:   authority{aCA, mountedCA},
			auth: "application_credential_id: i, application_credential_secret: s",
			want: map[string]string{
				"os-authURL": authURL, "os-applicationCredentialID": "i", "os-applicationCredentialSecret": "s",
				"os-region":        "R",
				"os-certAuthority": aCA,
			},
		},
		{
			name: "application credential by name", want: useClouds(),
			auth: "application_credential_name: n, application_credential_secret: s, username: u, " +
				"user_domain_name: D",
		},
		{name: "user by ID", auth: "user_id: u, password: p, project_id: i", want: useClouds()},
		{
			// The driver would read this path, and not the CA in the Secret.
			name: "user by ID, path in clouds.yaml", entry: "cacert: /home/installer/ca.pem,",
			ca:   authority{aCA, mountedCA},
			auth: "user_id: u, password: p, project_id: i",
			want: map[string]string{
				"os-useClouds": "true", "os-cloud": "openstack", "os-cloudsFile": "/etc/openstack/clouds.yaml",
				"os-certAuthorityPath": mountedCA,
			},
		},
		{
			// The Secret contains the fields that the driver does not read from clouds.yaml.
			name: "user by ID with all", entry: "region_name: R, interface: internal, verify: false,",
			ca:   authority{aCA, mountedCA},
			auth: "user_id: u, password: p, project_id: i",
			want: map[string]string{
				"os-useClouds": "true", "os-cloud": "openstack", "os-cloudsFile": "/etc/openstack/clouds.yaml",
				"os-region":       "R",
				"os-endpointType": "internal", "os-TLSInsecure": "true", "os-certAuthority": aCA,
			},
		},
	})
}

// checkTranslations compares Secrets, and checks that the driver accepts them and sends the same
// login as other clients.
func checkTranslations(t *testing.T, tests []translation) {
	t.Helper()
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			cloud, err := openstack.ParseClouds([]byte(cloudsYAML(test.entry, test.auth)),
				openstack.DefaultCloud)
			if err != nil {
				t.Fatal(err)
			}
			got := translate(cloud, test.ca)
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("secret (-want +got):\n%s", diff)
			}
			if faults := refusals(got); faults != nil {
				t.Errorf("the driver refuses %v: %v", got, faults)
			}
			if got["os-useClouds"] == "" {
				want := tokenRequest(t, *cloud.AuthInfo)
				if diff := cmp.Diff(want, tokenRequest(t, *driverLogin(got))); diff != "" {
					t.Errorf("login of the driver (-of clouds.yaml +of the secret):\n%s", diff)
				}
			}
		})
	}
}

// TestRulesOfDriverCanFail proves that the rules can fail.
func TestRulesOfDriverCanFail(t *testing.T) {
	t.Parallel()
	for name, secret := range map[string]map[string]string{
		"nothing": {},
		"user without a password": {
			"os-authURL": authURL, "os-applicationCredentialName": "n",
			"os-applicationCredentialSecret": "s", "os-userName": "u",
		},
		"two ways": {
			"os-authURL": authURL, "os-applicationCredentialID": "i", "os-applicationCredentialSecret": "s",
			"os-password": "p",
		},
		"empty value": {"os-useClouds": "true", "os-region": ""},
	} {
		if refusals(secret) == nil {
			t.Errorf("%s: not refused", name)
		}
	}
}
