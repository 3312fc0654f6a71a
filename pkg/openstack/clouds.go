package openstack

import (
	"fmt"
	"net/url"
	"reflect"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/utils/v2/openstack/clientconfig"
)

// DefaultCloud is the entry of clouds.yaml that the cloud credential operator writes.
const DefaultCloud = "openstack"

// Cloud is one entry of a clouds.yaml, checked for what a login needs.
type Cloud struct {
	clientconfig.Cloud
	// Name is the entry's.
	Name string
}

// ParseClouds reads the entry named cloud from the text of a clouds.yaml. When there is no such entry but exactly one other,
// that one is taken: HyperShift lets its users name the entry. Errors read on from the name of the place that the text is from.
// They name lines, fields and entries, never a value.
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
		return nil, outline.withoutAuth(ret.Name)
	}
	return ret, ret.validate()
}

func chooseCloud(clouds map[string]clientconfig.Cloud, name string, outline outline) (*Cloud, error) {
	if entry, ok := clouds[name]; ok {
		return &Cloud{Cloud: entry, Name: name}, nil
	}
	if len(clouds) == 1 {
		for other, only := range clouds {
			return &Cloud{Cloud: only, Name: other}, nil
		}
	}
	return nil, outline.withoutEntry(name)
}

// validate reports every fault of the entry's login at once, then what is wrong besides.
func (c *Cloud) validate() error {
	if missing := c.missing(); len(missing) > 0 {
		return fmt.Errorf("lacks in %s.auth: %s", c.path(), strings.Join(missing, ", "))
	}
	if err := c.supported(); err != nil {
		return err
	}
	if !slices.Contains([]string{"", "public", "internal", "admin"}, c.Availability()) {
		return fmt.Errorf("has an unknown %s.interface: want public, internal or admin", c.path())
	}
	if u, err := url.Parse(c.AuthInfo.AuthURL); err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return fmt.Errorf("has in %s.auth an auth_url that is no http or https URL", c.path())
	}
	if strings.HasSuffix(strings.TrimRight(c.AuthInfo.AuthURL, "/"), "/v2.0") {
		return fmt.Errorf("has in %s.auth an auth_url of version 2.0 of the identity API: use version 3", c.path())
	}
	_, err := c.authOptions()
	return err
}

// path is the entry's in messages.
func (c *Cloud) path() string { return "clouds." + printable(c.Name) }

func (c *Cloud) missing() []string {
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

// supported refuses fields that operator and driver would ignore, although a login or its effect depends on them.
func (c *Cloud) supported() error {
	var refused []string
	for _, field := range []struct {
		name, advice string
		given        bool
	}{
		{"profile", "write the values of the profile into the entry", c.Profile != ""},
		{"cloud", "write the values of that cloud into the entry", c.Cloud.Cloud != ""},
		{"cert", "client certificates cannot be used; use an application credential or a password", c.ClientCertFile != ""},
		{"key", "client certificates cannot be used; use an application credential or a password", c.ClientKeyFile != ""},
		{"regions", "set region_name to the region to use, without values for single regions", c.choosesRegion()},
		{"auth_type", "use password, v3password or v3applicationcredential", !c.knownAuthType()},
		{"identity_api_version", "only version 3 of the identity API can be used", !strings.HasPrefix(c.IdentityAPIVersion+"3", "3")},
		{"auth.trust_id", "trusts cannot be used; use an application credential", c.AuthInfo.TrustID != ""},
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

// choosesRegion tells whether the list of regions decides anything.
func (c *Cloud) choosesRegion() bool {
	return len(c.Regions) > 0 && (c.RegionName == "" ||
		slices.ContainsFunc(c.Regions, func(r clientconfig.Region) bool { return !reflect.ValueOf(r.Values).IsZero() }))
}

func (c *Cloud) knownAuthType() bool {
	return slices.Contains([]clientconfig.AuthType{
		"", clientconfig.AuthPassword, clientconfig.AuthV3Password, clientconfig.AuthV3ApplicationCredential,
	}, c.AuthType)
}

// UsesApplicationCredential tells application-credential entries from password entries.
func (c *Cloud) UsesApplicationCredential() bool {
	return c.AuthInfo.ApplicationCredentialID != "" || c.AuthInfo.ApplicationCredentialName != ""
}

// Availability is the interface whose endpoints to use, "" for the default. It drops the suffix that older files carry: publicURL is public.
func (c *Cloud) Availability() string {
	return strings.TrimSuffix(c.EndpointType, "URL")
}

// authOptions is what gophercloud logs in with.
func (c *Cloud) authOptions() (*gophercloud.AuthOptions, error) {
	auth := *c.AuthInfo
	opts, err := clientconfig.AuthOptions(&clientconfig.ClientOpts{
		// Without a prefix that nobody sets, the ambient OS_* variables would fill gaps of the file.
		EnvPrefix: "CSI_OPERATOR_UNUSED_",
		AuthInfo:  &auth,
		AuthType:  c.AuthType,
	})
	if err != nil {
		return nil, fmt.Errorf("holds in %s.auth nothing to log in with", c.path())
	}
	opts.AllowReauth = true
	scope, err := opts.ToTokenV3ScopeMap()
	if err == nil {
		_, err = opts.ToTokenV3CreateMap(scope)
	}
	if err != nil { // gophercloud's words name fields, never values
		return nil, fmt.Errorf("holds in %s.auth no login that is complete and free of contradictions: %w", c.path(), err)
	}
	return opts, nil
}
