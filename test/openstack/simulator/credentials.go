package simulator

import (
	"crypto/subtle"
	"time"
)

// Credentials are the credentials that Keystone accepts: one user in one project, with a password
// and an application credential.
type Credentials struct {
	UserID      string `json:"userID"`
	UserName    string `json:"userName"`
	DomainID    string `json:"domainID"`
	DomainName  string `json:"domainName"`
	ProjectID   string `json:"projectID"`
	ProjectName string `json:"projectName"`
	Password    string `json:"password"`

	ApplicationCredentialID     string `json:"applicationCredentialID"`
	ApplicationCredentialName   string `json:"applicationCredentialName"`
	ApplicationCredentialSecret string `json:"applicationCredentialSecret"`
	// ApplicationCredentialExpiry is the expiry that Keystone reports. The zero time means never. The
	// simulator accepts the application credential after that time too.
	ApplicationCredentialExpiry time.Time `json:"applicationCredentialExpiry,omitzero"`
}

// Rotation changes the accepted secrets. Empty fields get a new random value.
type Rotation struct {
	Password                    string `json:"password,omitempty"`
	ApplicationCredentialID     string `json:"applicationCredentialID,omitempty"`
	ApplicationCredentialSecret string `json:"applicationCredentialSecret,omitempty"`
	// ApplicationCredentialExpiry is the expiry of the new application credential.
	ApplicationCredentialExpiry time.Time `json:"applicationCredentialExpiry,omitzero"`
	// KeepTokens keeps the tokens of the old secrets valid. Keystone revokes them.
	KeepTokens bool `json:"keepTokens,omitempty"`
}

// withDefaults returns the credentials with every empty field set.
func (c Credentials) withDefaults() Credentials {
	setDefault(&c.UserID, newID())
	setDefault(&c.UserName, "openshift")
	setDefault(&c.DomainID, "default")
	setDefault(&c.DomainName, "Default")
	setDefault(&c.ProjectID, newID())
	setDefault(&c.ProjectName, "openshift")
	setDefault(&c.Password, newSecret())
	setDefault(&c.ApplicationCredentialID, newID())
	setDefault(&c.ApplicationCredentialName, "csi-operator")
	setDefault(&c.ApplicationCredentialSecret, newSecret())
	return c
}

// rotated returns the credentials with new secrets.
func (c Credentials) rotated(r Rotation) Credentials {
	setDefault(&r.Password, newSecret())
	setDefault(&r.ApplicationCredentialID, newID())
	setDefault(&r.ApplicationCredentialSecret, newSecret())
	c.Password = r.Password
	c.ApplicationCredentialID = r.ApplicationCredentialID
	c.ApplicationCredentialSecret = r.ApplicationCredentialSecret
	c.ApplicationCredentialExpiry = r.ApplicationCredentialExpiry
	return c
}

// newSecret returns a secret that a test can find in logs.
func newSecret() string { return "secret-" + newID() }

// The request for a token, as the Identity API defines it.
type authRequest struct {
	Auth struct {
		Identity authIdentity `json:"identity"`
		Scope    *authScope   `json:"scope"`
	} `json:"auth"`
}

type authIdentity struct {
	Methods  []string `json:"methods"`
	Password struct {
		User authUser `json:"user"`
	} `json:"password"`
	Token struct {
		ID string `json:"id"`
	} `json:"token"`
	ApplicationCredential struct {
		ID     string   `json:"id"`
		Name   string   `json:"name"`
		Secret string   `json:"secret"`
		User   authUser `json:"user"`
	} `json:"application_credential"`
}

type authUser struct {
	authNamed
	Password string     `json:"password"`
	Domain   *authNamed `json:"domain"`
}

type authNamed struct {
	ID   string `json:"id"`
	Name string `json:"name"`
}

// authScope is a project, or another scope on which the user has no role.
type authScope struct {
	Project *struct {
		authNamed
		Domain *authNamed `json:"domain"`
	} `json:"project"`
}

// is returns whether the reference, by ID or by name, means the object.
func (n *authNamed) is(id, name string) bool {
	if n == nil {
		return false
	}
	return n.ID == id || n.ID == "" && n.Name != "" && n.Name == name
}

// owns returns whether the reference means the user of the credentials. A name needs the domain.
func (c Credentials) owns(user authUser) bool {
	if !user.is(c.UserID, c.UserName) {
		return false
	}
	return user.ID != "" || user.Domain.is(c.DomainID, c.DomainName)
}

// accepts checks the secrets of one method; the token method is not about secrets.
func (c Credentials) accepts(method string, identity authIdentity) bool {
	switch method {
	case "password":
		return c.owns(identity.Password.User) && same(identity.Password.User.Password, c.Password)
	case "application_credential":
		given := identity.ApplicationCredential
		found := given.ID == c.ApplicationCredentialID ||
			given.ID == "" && given.Name == c.ApplicationCredentialName && c.owns(given.User)
		return found && same(given.Secret, c.ApplicationCredentialSecret)
	}
	return false
}

// covers returns whether the user has a role in the scope.
func (c Credentials) covers(scope *authScope) bool {
	if scope.Project == nil || !scope.Project.is(c.ProjectID, c.ProjectName) {
		return false
	}
	return scope.Project.ID != "" || scope.Project.Domain.is(c.DomainID, c.DomainName)
}

func same(given, accepted string) bool {
	return subtle.ConstantTimeCompare([]byte(given), []byte(accepted)) == 1
}
