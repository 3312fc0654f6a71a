package simulator

import (
	"cmp"

	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"sigs.k8s.io/yaml"
)

// Auth is a way to log in.
type Auth string

// The ways to log in.
const (
	// Password is user name and password, with project and domains by name.
	Password Auth = "password"
	// ApplicationCredential is an application credential by ID.
	ApplicationCredential Auth = "application-credential"
	// NamedApplicationCredential is an application credential by name and user.
	NamedApplicationCredential Auth = "application-credential-name"
)

// Clouds describes a clouds.yaml. The zero value is a cloud "openstack" with a password and the
// default region.
type Clouds struct {
	// Cloud is the name of the entry, "openstack" if empty.
	Cloud string
	// Auth is the way to log in, Password if empty.
	Auth Auth
	// Region is the region_name; the default region if empty.
	Region string
	// NoRegion omits region_name.
	NoRegion bool
	// CACert is the path of a CA file, the value of cacert; none if empty.
	CACert string
}

// render returns the file.
func (o Clouds) render(info Info, c Credentials) []byte {
	cloud := clouds.Cloud{
		AuthInfo: o.login(c), AuthType: clouds.AuthV3ApplicationCredential,
		CACertFile: o.CACert, IdentityAPIVersion: "3", Interface: "public",
	}
	cloud.AuthInfo.AuthURL = info.AuthURL
	if cloud.AuthInfo.Password != "" {
		cloud.AuthType = clouds.AuthPassword
	}
	if !o.NoRegion {
		cloud.RegionName = cmp.Or(o.Region, info.Regions[0])
	}
	text, _ := yaml.Marshal(clouds.Clouds{
		Clouds: map[string]clouds.Cloud{cmp.Or(o.Cloud, "openstack"): cloud},
	}) // never fails for strings
	return text
}

// login returns the part of the auth section that depends on the way to log in.
func (o Clouds) login(c Credentials) *clouds.AuthInfo {
	switch o.Auth {
	case ApplicationCredential:
		return &clouds.AuthInfo{
			ApplicationCredentialID:     c.ApplicationCredentialID,
			ApplicationCredentialSecret: c.ApplicationCredentialSecret,
		}
	case NamedApplicationCredential:
		return &clouds.AuthInfo{
			ApplicationCredentialName:   c.ApplicationCredentialName,
			ApplicationCredentialSecret: c.ApplicationCredentialSecret,
			Username:                    c.UserName, UserDomainName: c.DomainName,
		}
	}
	return &clouds.AuthInfo{
		Username: c.UserName, Password: c.Password, UserDomainName: c.DomainName,
		ProjectName: c.ProjectName, ProjectDomainName: c.DomainName,
	}
}
