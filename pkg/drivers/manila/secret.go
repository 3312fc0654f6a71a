package manila

import (
	"cmp"
	"maps"

	"github.com/gophercloud/utils/v2/openstack/clientconfig"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// authority is the CA of a cloud. The zero value is none.
type authority struct {
	// pem is the CA, path the file that contains it in the pods of this operator.
	pem, path string
}

// Keys returns the data of the Secret that the driver reads, for a cloud and the PEM of its CA in
// the credentials Secret.
func Keys(cloud *openstack.Cloud, ca string) map[string]string {
	return translate(cloud, authority{ca, mountedCA})
}

// translate returns the data of the Secret that the Manila CSI driver reads, for a cloud and its
// CA. The driver validates the keys, which exclude each other and may not be empty: see
// https://github.com/kubernetes/cloud-provider-openstack,
// docs/manila-csi-plugin/using-manila-csi-plugin.md.
func translate(cloud *openstack.Cloud, ca authority) map[string]string {
	auth := cloud.AuthInfo
	secret := map[string]string{"os-region": cloud.RegionName, "os-endpointType": cloud.Availability()}
	switch {
	case auth.ApplicationCredentialID != "":
		secret["os-authURL"] = auth.AuthURL
		secret["os-applicationCredentialID"] = auth.ApplicationCredentialID
		secret["os-applicationCredentialSecret"] = auth.ApplicationCredentialSecret
	case explicitPassword(cloud):
		secret["os-authURL"] = auth.AuthURL
		secret["os-password"] = auth.Password
		secret["os-userName"] = auth.Username
		id, name := userDomain(auth)
		// The driver requires os-domain* even if os-userDomain* contain the same.
		secret["os-domainID"], secret["os-userDomainID"] = id, id
		secret["os-domainName"], secret["os-userDomainName"] = name, name
		secret["os-projectID"] = auth.ProjectID
		if auth.ProjectID == "" { // an ID needs no domain
			secret["os-projectName"] = auth.ProjectName
			secret["os-projectDomainID"], secret["os-projectDomainName"] = projectDomain(auth)
		}
	default:
		// The keys of the driver cannot express this login, but its reader of clouds.yaml can: a user by
		// ID, without a domain; two domains of which one is by ID and one by name; or an application
		// credential by name, whose user the driver accepts only with a password. That reader does not
		// support `interface` and `verify`.
		secret["os-useClouds"] = "true"
		secret["os-cloud"] = cloud.Name
		secret["os-cloudsFile"] = mountedClouds
	}
	if cloud.Verify != nil && !*cloud.Verify {
		secret["os-TLSInsecure"] = "true"
	}
	if secret["os-useClouds"] != "" && cloud.CACertFile != "" {
		// The driver prefers the path in its clouds.yaml to a CA in the Secret, and a path in the Secret
		// to both.
		secret["os-certAuthorityPath"] = ca.path
	} else {
		// Pods of an earlier release do not mount a file with the CA of the credentials.
		secret["os-certAuthority"] = ca.pem
	}
	// The driver rejects keys without a value.
	maps.DeleteFunc(secret, func(_, value string) bool { return value == "" })
	return secret
}

// explicitPassword returns true if the entry contains what the driver requires of a password login:
// a user by name in a domain, and a project. The driver uses os-domain* for the project too, so the
// domain of a project by name must have the same form.
func explicitPassword(cloud *openstack.Cloud) bool {
	a := cloud.AuthInfo
	userID, userName := userDomain(a)
	projectID, _ := projectDomain(a)
	switch {
	case cloud.UsesApplicationCredential(), a.Username == "", userID == "" && userName == "":
		return false
	case a.ProjectID != "":
		return true
	}
	return a.ProjectName != "" && (userID == "") == (projectID == "")
}

func userDomain(a *clientconfig.AuthInfo) (id, name string) {
	return domain(a, a.UserDomainID, a.UserDomainName)
}

func projectDomain(a *clientconfig.AuthInfo) (id, name string) {
	return domain(a, a.ProjectDomainID, a.ProjectDomainName)
}

// domain returns a domain by ID or by name; the other result is empty. The defaults of the entry
// replace an empty id and name.
func domain(a *clientconfig.AuthInfo, id, name string) (string, string) {
	id, name = cmp.Or(id, a.DomainID), cmp.Or(name, a.DomainName)
	switch {
	case id != "":
		return id, ""
	case name != "":
		return "", name
	}
	return a.DefaultDomain, ""
}
