package openstack

import (
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/utils/v2/openstack/clientconfig"
)

// Cloud is one entry of a clouds.yaml that contains everything a login needs.
type Cloud struct {
	clientconfig.Cloud
	// Name is the name of the entry.
	Name string
}

// ParseClouds returns the entry named cloud of a clouds.yaml. If there is no such entry but exactly
// one other, it returns the other one: HyperShift lets its users name the entry. The text of an
// error follows the name of the source of the clouds.yaml. Errors name lines, fields and
// entries, never a value.
func ParseClouds(text []byte, cloud string) (*Cloud, error) {
	var file clientconfig.Clouds
	outline, err := decodeClouds(text, &file)
	if err != nil {
		return nil, err
	}
	ret, err := chooseCloud(file.Clouds, cloud, outline)
	if err != nil {
		return nil, err
	}
	if ret.EndpointType == "" {
		ret.EndpointType = ret.Interface
	}
	if ret.AuthInfo == nil {
		return nil, outline.missingAuth(ret.Name)
	}
	return ret, ret.validate()
}

func chooseCloud(clouds map[string]clientconfig.Cloud, name string, outline outline) (*Cloud,
	error,
) {
	if entry, ok := clouds[name]; ok {
		return &Cloud{Cloud: entry, Name: name}, nil
	}
	if len(clouds) == 1 {
		for other, only := range clouds {
			return &Cloud{Cloud: only, Name: other}, nil
		}
	}
	return nil, outline.missingEntry(name)
}

// validate returns one error for all missing fields, then one for all unsupported fields, then the
// first invalid value.
func (c *Cloud) validate() error {
	if missing := c.missingFields(); len(missing) > 0 {
		return fmt.Errorf("is incomplete: %s.auth lacks %s", c.path(), strings.Join(missing, ", "))
	}
	if err := c.checkSupported(); err != nil {
		return err
	}
	if !slices.Contains([]string{"", "public", "internal", "admin"}, c.Availability()) {
		return fmt.Errorf("has an unknown %s.interface: use public, internal or admin", c.path())
	}
	u, err := url.Parse(c.AuthInfo.AuthURL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("has an invalid %s.auth.auth_url: use an http or https URL", c.path())
	}
	if strings.HasSuffix(strings.TrimRight(c.AuthInfo.AuthURL, "/"), "/v2.0") {
		return fmt.Errorf("has %s.auth.auth_url of version 2.0 of the identity API: use version 3",
			c.path())
	}
	_, err = c.authOptions()
	return err
}

func (c *Cloud) path() string { return "clouds." + printableName(c.Name) }

func (c *Cloud) missingFields() []string {
	var missing []string
	if c.AuthInfo.AuthURL == "" {
		missing = append(missing, "auth_url")
	}
	if c.UsesApplicationCredential() {
		if c.AuthInfo.ApplicationCredentialSecret == "" {
			missing = append(missing, "application_credential_secret")
		}
		return missing
	}
	if c.AuthInfo.Username == "" && c.AuthInfo.UserID == "" {
		missing = append(missing, "username or user_id (or application_credential_id)")
	}
	if c.AuthInfo.Password == "" {
		missing = append(missing, "password")
	}
	return missing
}

// checkSupported returns an error if the entry has fields that operator and driver would ignore
// although a login or its effect depends on them.
func (c *Cloud) checkSupported() error {
	const noClientCertificates = "client certificates cannot be used; " +
		"use an application credential or a password"
	var refused []string
	for _, field := range []struct {
		name, advice string
		given        bool
	}{
		{"profile", "write the values of the profile into the entry", c.Profile != ""},
		{"cloud", "write the values of that cloud into the entry", c.Cloud.Cloud != ""},
		{"cert", noClientCertificates, c.ClientCertFile != ""},
		{"key", noClientCertificates, c.ClientKeyFile != ""},
		{
			"regions", "write the values of the region into the entry",
			slices.ContainsFunc(c.Regions, hasValues),
		},
		{"auth_type", "use password, v3password or v3applicationcredential", !c.knownAuthType()},
		{
			"identity_api_version", "only version 3 of the identity API can be used",
			!strings.HasPrefix(c.IdentityAPIVersion+"3", "3"),
		},
		{
			"auth.trust_id", "trusts cannot be used; use an application credential",
			c.AuthInfo.TrustID != "",
		},
		{"auth.system_scope", "use a project", c.AuthInfo.SystemScope != ""},
	} {
		if field.given {
			refused = append(refused, fmt.Sprintf("%s.%s (%s)", c.path(), field.name, field.advice))
		}
	}
	if len(refused) > 0 {
		return fmt.Errorf("has fields that are not supported: %s", strings.Join(refused, ", "))
	}
	return nil
}

func (c *Cloud) knownAuthType() bool {
	return slices.Contains([]clientconfig.AuthType{
		"", clientconfig.AuthPassword, clientconfig.AuthV3Password,
		clientconfig.AuthV3ApplicationCredential,
	}, c.AuthType)
}

// UsesApplicationCredential returns true if the entry contains an application credential, false if
// it contains a password.
func (c *Cloud) UsesApplicationCredential() bool {
	return c.AuthInfo.ApplicationCredentialID != "" || c.AuthInfo.ApplicationCredentialName != ""
}

// Availability returns the interface of the endpoints to use, "" for the default. It removes the
// suffix of older files: publicURL becomes public.
func (c *Cloud) Availability() string {
	return strings.TrimSuffix(c.EndpointType, "URL")
}

func (c *Cloud) authOptions() (*gophercloud.AuthOptions, error) {
	auth := *c.AuthInfo
	opts, err := clientconfig.AuthOptions(&clientconfig.ClientOpts{
		// With a prefix that nobody uses, OS_* variables cannot fill missing fields.
		EnvPrefix: "CSI_OPERATOR_UNUSED_",
		AuthInfo:  &auth,
		AuthType:  c.AuthType,
	})
	if err != nil {
		return nil, fmt.Errorf("has no credentials in %s.auth", c.path())
	}
	opts.AllowReauth = true
	scope, err := opts.ToTokenV3ScopeMap()
	if err == nil {
		_, err = opts.ToTokenV3CreateMap(scope)
	}
	if err != nil { // gophercloud's errors name fields, never values
		return nil, fmt.Errorf("has an incomplete or contradictory login in %s.auth: %w", c.path(), err)
	}
	return opts, nil
}
