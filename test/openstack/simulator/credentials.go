package simulator

import (
	"cmp"
	"time"

	"github.com/gophercloud/gophercloud/v2/openstack/config/clouds"
	"github.com/gophercloud/gophercloud/v2/openstack/identity/v3/applicationcredentials"
	"sigs.k8s.io/yaml"
)

// Credentials are the credentials that Keystone accepts: one user in one project, with a password
// and an application credential.
type Credentials struct {
	UserID, UserName       string
	DomainID, DomainName   string
	ProjectID, ProjectName string
	Password               string

	ApplicationCredentialID     string
	ApplicationCredentialName   string
	ApplicationCredentialSecret string
	// ApplicationCredentialExpiry is the expiry that Keystone reports. The zero time means never. The
	// simulator accepts the application credential after that time too.
	ApplicationCredentialExpiry time.Time
	// AccessRules and Role are what Keystone reports. Nothing is refused because of them: a fault does
	// that. The default role is member.
	AccessRules []applicationcredentials.AccessRule
	Role        string
}

// Rotation changes the accepted secrets. Empty fields get a new random value.
type Rotation struct {
	Password                    string
	ApplicationCredentialID     string
	ApplicationCredentialSecret string
	// ApplicationCredentialExpiry is the expiry of the new application credential.
	ApplicationCredentialExpiry time.Time
	// KeepTokens keeps the tokens of the old secrets valid. Keystone revokes them.
	KeepTokens bool
}

func (c Credentials) withDefaults() Credentials {
	c.UserID = cmp.Or(c.UserID, newID())
	c.UserName = cmp.Or(c.UserName, "openshift")
	c.DomainID = cmp.Or(c.DomainID, "default")
	c.DomainName = cmp.Or(c.DomainName, "Default")
	c.ProjectID = cmp.Or(c.ProjectID, newID())
	c.ProjectName = cmp.Or(c.ProjectName, "openshift")
	c.Password = cmp.Or(c.Password, newSecret())
	c.ApplicationCredentialID = cmp.Or(c.ApplicationCredentialID, newID())
	c.ApplicationCredentialName = cmp.Or(c.ApplicationCredentialName, "csi-operator")
	c.ApplicationCredentialSecret = cmp.Or(c.ApplicationCredentialSecret, newSecret())
	c.Role = cmp.Or(c.Role, "member")
	return c
}

// newSecret returns a secret that a test can find in logs.
func newSecret() string { return "secret-" + newID() }

// authRequest is the request for a token, as the Identity API defines it.
type authRequest struct {
	Auth struct {
		Identity authIdentity `json:"identity"`
		Scope    *authScope   `json:"scope"`
	} `json:"auth"`
}

type authIdentity struct {
	Methods  []string `json:"methods"`
	Password struct {
		User struct {
			reference
			Password string `json:"password"`
		} `json:"user"`
	} `json:"password"`
	ApplicationCredential struct {
		ID     string    `json:"id"`
		Name   string    `json:"name"`
		Secret string    `json:"secret"`
		User   reference `json:"user"`
	} `json:"application_credential"`
}

// authScope is a project, or another scope on which the user has no role.
type authScope struct {
	Project *reference `json:"project"`
}

// reference is a user or a project by ID, or by name and domain; or a domain by ID or name.
type reference struct {
	ID     string     `json:"id"`
	Name   string     `json:"name"`
	Domain *reference `json:"domain"`
}

// contains returns whether the domain of the credentials contains the object with the ID and name
// to which the reference refers.
func (c Credentials) contains(r *reference, id, name string) bool {
	if r == nil || r.ID != "" {
		return r != nil && r.ID == id
	}
	domain := r.Domain
	return r.Name == name && domain != nil &&
		(domain.ID == c.DomainID || domain.ID == "" && domain.Name == c.DomainName)
}

// unknown returns the ID in a login with an unknown application credential, and "" otherwise.
func (c Credentials) unknown(method string, identity authIdentity) string {
	id := identity.ApplicationCredential.ID
	if method != "application_credential" || id == c.ApplicationCredentialID {
		return ""
	}
	return id
}

func (c Credentials) accepts(method string, identity authIdentity) bool {
	switch method {
	case "password":
		user := identity.Password.User
		return c.contains(&user.reference, c.UserID, c.UserName) && user.Password == c.Password
	case "application_credential":
		given := identity.ApplicationCredential
		found := given.ID == c.ApplicationCredentialID ||
			given.ID == "" && given.Name == c.ApplicationCredentialName &&
				c.contains(&given.User, c.UserID, c.UserName)
		return found && given.Secret == c.ApplicationCredentialSecret
	}
	return false
}

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
