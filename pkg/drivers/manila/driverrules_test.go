package manila

import (
	"fmt"
	"slices"
	"testing"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"
)

// driverNeeds returns the driver's rules about its Secret: for each key, the groups of which the
// Secret must contain exactly one key.
func driverNeeds() map[string][][]string {
	passwordOrCert := [][]string{{"os-password", "os-clientCertPath"}}
	return map[string][][]string{
		"os-authURL": {{
			"os-password", "os-trustID", "os-applicationCredentialSecret", "os-clientCertPath",
		}},
		"os-userID":   {{"os-password"}},
		"os-userName": {{"os-password"}},
		"os-password": {
			{"os-domainID", "os-domainName"},
			{"os-projectID", "os-projectName"},
			{"os-userID", "os-userName"},
		},
		"os-projectID":                 passwordOrCert,
		"os-projectName":               passwordOrCert,
		"os-domainID":                  passwordOrCert,
		"os-domainName":                passwordOrCert,
		"os-applicationCredentialID":   {{"os-applicationCredentialSecret"}},
		"os-applicationCredentialName": {{"os-applicationCredentialSecret"}},
		"os-applicationCredentialSecret": {{
			"os-applicationCredentialID", "os-applicationCredentialName",
		}},
		"os-projectDomainID":   nil,
		"os-projectDomainName": nil,
		"os-userDomainID":      nil,
		"os-userDomainName":    nil,
		"os-region":            nil,
		"os-endpointType":      nil,
		"os-certAuthorityPath": nil,
		"os-certAuthority":     nil,
		"os-TLSInsecure":       nil,
		"os-useClouds":         nil,
		"os-cloudsFile":        {{"os-useClouds"}},
		"os-cloud":             {{"os-useClouds"}},
	}
}

// refusals returns the reasons for which the driver refuses a Secret.
func refusals(secret map[string]string) []string {
	var faults []string
	needs := driverNeeds()
	for key, value := range secret {
		groups, known := needs[key]
		if !known {
			faults = append(faults, fmt.Sprintf("%s is unknown", key))
		}
		if value == "" {
			faults = append(faults, fmt.Sprintf("%s is empty", key))
		}
		for _, group := range groups {
			there := slices.DeleteFunc(slices.Clone(group), func(k string) bool { return secret[k] == "" })
			if len(there) != 1 {
				faults = append(faults, fmt.Sprintf("%s needs exactly one of %q", key, group))
			}
		}
	}
	if secret["os-authURL"] == "" && secret["os-useClouds"] != "true" {
		faults = append(faults, "neither os-authURL nor os-useClouds")
	}
	return faults
}

// driverLogin returns the login that the driver derives from the explicit keys.
func driverLogin(secret map[string]string) *clientconfig.AuthInfo {
	return &clientconfig.AuthInfo{
		AuthURL:                     secret["os-authURL"],
		UserID:                      secret["os-userID"],
		Username:                    secret["os-userName"],
		Password:                    secret["os-password"],
		ProjectID:                   secret["os-projectID"],
		ProjectName:                 secret["os-projectName"],
		DomainID:                    secret["os-domainID"],
		DomainName:                  secret["os-domainName"],
		ProjectDomainID:             secret["os-projectDomainID"],
		ProjectDomainName:           secret["os-projectDomainName"],
		UserDomainID:                secret["os-userDomainID"],
		UserDomainName:              secret["os-userDomainName"],
		ApplicationCredentialID:     secret["os-applicationCredentialID"],
		ApplicationCredentialSecret: secret["os-applicationCredentialSecret"],
	}
}

// tokenRequest is the body of the login.
func tokenRequest(t *testing.T, auth clientconfig.AuthInfo) map[string]any {
	t.Helper()
	opts, err := clientconfig.AuthOptions(&clientconfig.ClientOpts{EnvPrefix: "_", AuthInfo: &auth})
	if err != nil {
		t.Fatal(err)
	}
	scope, err := opts.ToTokenV3ScopeMap()
	if err != nil {
		t.Fatal(err)
	}
	body, err := opts.ToTokenV3CreateMap(scope)
	if err != nil {
		t.Fatal(err)
	}
	return body
}
