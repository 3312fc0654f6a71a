package openstack_test

import (
	"testing"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// wantManilaLogin expects the Manila CSI driver to send the login. Its fields have the names of the
// keys: see AuthOpts in pkg/client of https://github.com/kubernetes/cloud-provider-openstack.
func wantManilaLogin(t *testing.T, keys map[string]string, login *openstack.Login) {
	t.Helper()
	for key, value := range keys {
		assert.Check(t, value != "" && key != "os-useClouds", "the driver refuses %s with %q", key, value)
	}
	opts, err := clientconfig.AuthOptions(&clientconfig.ClientOpts{
		EnvPrefix: "UNUSED_", AuthInfo: &clientconfig.AuthInfo{
			AuthURL: keys["os-authURL"], Password: keys["os-password"],
			UserID: keys["os-userID"], Username: keys["os-userName"],
			UserDomainID: keys["os-userDomainID"], UserDomainName: keys["os-userDomainName"],
			ProjectID: keys["os-projectID"], ProjectName: keys["os-projectName"],
			ProjectDomainID:             keys["os-projectDomainID"],
			ProjectDomainName:           keys["os-projectDomainName"],
			DomainID:                    keys["os-domainID"],
			DomainName:                  keys["os-domainName"],
			ApplicationCredentialID:     keys["os-applicationCredentialID"],
			ApplicationCredentialName:   keys["os-applicationCredentialName"],
			ApplicationCredentialSecret: keys["os-applicationCredentialSecret"],
		},
	})
	check(t, err)
	assert.Check(t, is.DeepEqual(request(t, login.AuthOptions()), request(t, opts)),
		"request of the login (-) and of Manila's driver (+)")
}

// Drivers before 1.34 require exactly one key os-domain* for a password.
func TestManilaKeysRepeatTheDomainForOldDrivers(t *testing.T) {
	t.Parallel()
	type login = clientconfig.AuthInfo
	for name, test := range map[string]struct {
		login    login
		id, name string
	}{
		"by ID": {
			login{Username: "u", UserDomainID: "i", ProjectName: "p", ProjectDomainID: "i"}, "i", "",
		},
		"by name": {
			login{Username: "u", UserDomainName: "n", ProjectName: "p", ProjectDomainName: "n"},
			"", "n",
		},
		"by name and by ID": {
			login{Username: "u", UserDomainName: "n", ProjectName: "p", ProjectDomainID: "i"},
			"", "n",
		},
		"project by ID":  {login{Username: "u", UserDomainID: "i", ProjectID: "p"}, "i", ""},
		"without domain": {login{UserID: "u", ProjectID: "p"}, "", ""},
		"without project, where it would be the scope": {login{Username: "u", UserDomainID: "i"}, "", ""},
		"where it would be the domain of the project": {
			login{Username: "u", UserDomainID: "i", ProjectName: "p", ProjectDomainName: "n"}, "", "",
		},
	} {
		test.login.Password = "pw"
		keys := (&openstack.Login{AuthInfo: test.login}).ManilaKeys()
		got := [2]string{keys["os-domainID"], keys["os-domainName"]}
		assert.Check(t, is.DeepEqual([2]string{test.id, test.name}, got), name)
	}
}

func TestManilaKeysNeedALogin(t *testing.T) {
	t.Parallel()
	for want, keys := range map[string]map[string]string{
		"has no key os-authURL": {"os-useClouds": "true"},
		"has neither key os-password nor os-applicationCredentialSecret": {"os-authURL": "x"},
	} {
		_, err := openstack.LoginOfManilaKeys(keys)
		assert.Check(t, is.Error(err, want))
	}
}
