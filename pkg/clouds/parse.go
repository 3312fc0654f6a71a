package clouds

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/utils/v2/openstack/clientconfig"
	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// DefaultEntry is the name of the entry that the cloud credential operator writes into clouds.yaml.
const DefaultEntry = "openstack"

// The keys of a credentials Secret.
const (
	Key   = "clouds.yaml"
	CAKey = "cacert"
	// secureKey is the file that other tools merge into clouds.yaml.
	secureKey = "secure.yaml"
)

// Content is what people write: the credentials Secret of a driver, and the CA beside it.
type Content struct {
	// Name names the Secret in messages, such as "Secret namespace/name".
	Name string
	// Data contains Key and, for clouds with a private CA, CAKey.
	Data map[string][]byte
	// CA is the bundle in the ConfigMap with the cloud's CA, in PEM. Empty means none.
	CA string
	// CAName names the key of that ConfigMap in messages. CAErr is why the key cannot be read.
	CAName string
	CAErr  error
	// Fix is what else to do about a mistake in the Secret, a sentence for messages.
	Fix string
	// CAElsewhere means that CA is not known: a path in the entry may be as good as any.
	CAElsewhere bool
}

// Login returns the login of the entry DefaultEntry. If there is no such entry but exactly one
// other, it returns the other one: HyperShift lets its users name the entry. Errors and remarks
// contain keys and lines, never a value.
func (c Content) Login() (*Login, error) {
	text, found := c.Data[Key]
	if !found {
		var keys []key
		for _, name := range slices.Sorted(maps.Keys(c.Data)) {
			keys = append(keys, key{name: name})
		}
		return nil, c.wrong(fmt.Errorf("%s has no key %s%s. %s", c.Name, Key,
			others("its keys are", keys), c.instead(keys)))
	}
	source := fmt.Sprintf("key %s of %s", Key, c.Name)
	refused := func(err error) error {
		if line, contains := position.Strange(string(text)); line > 0 {
			err = fmt.Errorf("%w. Line %d %s", err, line, contains)
		}
		return c.wrong(fmt.Errorf("%s %w", source, err))
	}
	e, err := readEntry(text)
	if err != nil {
		return nil, refused(err)
	}
	if _, found := c.Data[secureKey]; found {
		e.note = fmt.Sprintf(". Key %s is not read: move its content into %s", secureKey, Key)
	}
	l, err := e.login()
	if err != nil {
		return nil, refused(err)
	}
	if l.CA, l.Remarks, err = c.authority(e); err != nil {
		return nil, err
	}
	if !strings.Contains(e.CACertFile, "-----BEGIN") {
		l.CAPath = e.CACertFile
	}
	if l.NoProject != "" {
		l.NoProject = source + " " + l.NoProject
	}
	if second := position.Second(text); second > 0 {
		l.Remarks = append(l.Remarks, fmt.Sprintf("%s: the YAML document in line %d has no effect: only "+
			"the first one, before the line ---, is read. Remove it", source, second))
	}
	for _, remark := range e.remarks(l) {
		l.Remarks = append(l.Remarks, source+": "+remark)
	}
	return l, nil
}

// wrong adds what to do about a mistake in the Secret.
func (c Content) wrong(err error) error {
	if c.Fix == "" {
		return err
	}
	return fmt.Errorf("%w. %s", err, c.Fix)
}

// login returns the login without its CA, or an error with the mistakes of every kind.
func (e *entry) login() (*Login, error) {
	auth := cmp.Or(e.AuthInfo, &clientconfig.AuthInfo{})
	given := auth.AuthURL
	auth.AuthURL = strings.TrimSpace(given)
	mistakes := slices.Concat([]string{e.faults}, e.unsupported(auth))
	add := func(err error) {
		if err != nil {
			mistakes = append(mistakes, err.Error())
		}
	}
	add(e.checkURL(auth.AuthURL))
	if e.AuthInfo == nil && lineOf(e.keys, "auth") == "" {
		add(e.missingAuth())
		return nil, joined(mistakes)
	}
	filled := *auth
	fill(&filled)
	l := e.explicit(filled)
	if missing := e.missing(auth, l); len(missing) > 0 {
		verb := "lacks"
		if auth := find(e.keys, "auth"); auth.empty() {
			verb = "is " + position.Shape(auth.value) + " and lacks"
		}
		add(fmt.Errorf("is incomplete: %s %s %s%s",
			e.at("auth"), verb, strings.Join(missing, ", "), e.strangers()+e.note))
	}
	add(e.checkValues(&filled, l))
	if err := joined(mistakes); err != nil {
		return nil, err
	}
	l.AuthURL, l.Interface = identityURL(given), strings.TrimSuffix(l.Interface, "URL")
	if l.Password != "" && l.ProjectID == "" && l.ProjectName == "" {
		l.NoProject = e.noProject()
	}
	return l, nil
}

// joined returns an error with all mistakes, nil if there is none.
func joined(mistakes []string) error {
	mistakes = slices.DeleteFunc(mistakes, func(m string) bool { return m == "" })
	if len(mistakes) == 0 {
		return nil
	}
	return errors.New(strings.Join(mistakes, ". It "))
}

// fill fills missing domains in auth as the drivers' reader of clouds.yaml does, and returns the
// options that it makes of auth.
func fill(auth *clientconfig.AuthInfo) *gophercloud.AuthOptions {
	auth.AuthURL, auth.Token = "https://unused"+identityVersion, ""
	// With a prefix that nobody uses, OS_* variables cannot fill missing fields. An error is
	// impossible with a URL of version 3.
	opts, err := clientconfig.AuthOptions(&clientconfig.ClientOpts{
		EnvPrefix: "CSI_OPERATOR_UNUSED_", AuthInfo: auth,
	})
	if err != nil {
		return &gophercloud.AuthOptions{Scope: &gophercloud.AuthScope{}}
	}
	return opts
}

// explicit returns what gophercloud sends for auth with filled domains: a password precedes an
// application credential, which has no project, and an ID precedes a name.
func (e *entry) explicit(auth clientconfig.AuthInfo) *Login {
	drop := func(obsolete bool, fields ...*string) {
		for _, field := range fields {
			if obsolete {
				*field = ""
			}
		}
	}
	byPassword, credential := auth.Password != "", len(e.given(credentialKeys()...)) > 0
	drop(credential, &auth.ProjectID, &auth.ProjectName)
	drop(byPassword, &auth.ApplicationCredentialID, &auth.ApplicationCredentialName,
		&auth.ApplicationCredentialSecret)
	drop(auth.ApplicationCredentialID != "", &auth.ApplicationCredentialName, &auth.UserID,
		&auth.Username)
	drop(!byPassword && auth.UserID != "", &auth.Username)
	drop(auth.ProjectID != "", &auth.ProjectName)
	drop(auth.Username == "", &auth.UserDomainID, &auth.UserDomainName)
	drop(auth.ProjectName == "", &auth.ProjectDomainID, &auth.ProjectDomainName)
	drop(auth.UserDomainID != "", &auth.UserDomainName)
	drop(auth.ProjectDomainID != "", &auth.ProjectDomainName)
	drop(true, &auth.DomainID, &auth.DomainName, &auth.DefaultDomain)
	auth.AllowReauth = false
	return &Login{
		Entry: e.name, AuthInfo: auth, Region: e.RegionName,
		Interface: cmp.Or(e.EndpointType, e.Interface), Insecure: e.Verify != nil && !*e.Verify,
	}
}

// missing returns the fields that the login lacks, each with what to do if the entry has such a key
// in another place or spelling.
func (e *entry) missing(auth *clientconfig.AuthInfo, l *Login) (missing []string) {
	need := func(missed bool, keys ...string) {
		typed := slices.ContainsFunc(e.auth, func(k key) bool { // it is missed for its type
			return slices.Contains(keys, k.name) && k.value.Kind != yaml.ScalarNode
		})
		if missed && !typed {
			missing = append(missing, strings.Join(keys, " or ")+
				cmp.Or(e.misplaced(" (%s)", keys...), e.blank(keys...)))
		}
	}
	byName, user := l.ApplicationCredentialName != "", []string{"username", "user_id"}
	credential := l.Password == "" && (len(e.given(credentialKeys()...)) > 0 ||
		e.AuthType == clientconfig.AuthV3ApplicationCredential)
	if !credential && l.Password == "" {
		user = append(user, "application_credential_id")
	}
	need(auth.AuthURL == "", "auth_url")
	if !e.supportedType() || auth.Token+auth.TrustID != "" { // another kind, with other fields
		return missing
	}
	need(credential && l.ApplicationCredentialID == "" && !byName, "application_credential_id")
	need(credential && !l.UsesApplicationCredential(), "application_credential_secret")
	need((!credential || byName) && l.Username == "" && l.UserID == "", user...)
	need(!credential && l.Password == "", "password")
	known := len(missing)
	need(l.Username != "" && l.UserID == "" && l.UserDomainID+l.UserDomainName == "",
		"user_domain_name", "user_domain_id")
	need(l.ProjectName != "" && l.ProjectID == "" && l.ProjectDomainID+l.ProjectDomainName == "",
		"project_domain_name", "project_domain_id")
	if len(missing) > known && l.Password != "" { // so the same file works there
		e.note = ". For a missing domain, the openstack command uses the ID default" + e.note
	}
	return missing
}

func credentialKeys() []string {
	return []string{
		"application_credential_id", "application_credential_name",
		"application_credential_secret",
	}
}

// checkValues returns an error for values that contradict each other or that nothing accepts.
func (e *entry) checkValues(filled *clientconfig.AuthInfo, l *Login) error {
	domains := []string{
		"user_domain_id", "user_domain_name", "domain_id", "domain_name", "default_domain",
	}
	path := e.path()
	switch {
	case !slices.Contains([]string{"", "public", "internal", "admin"},
		strings.TrimSuffix(l.Interface, "URL")):
		field := "interface"
		if e.EndpointType != "" {
			field = "endpoint_type"
		}
		return fmt.Errorf("has an unknown %s: use public, internal or admin", e.at(field))
	case l.Password != "" && l.Username != "" && l.UserID != "":
		return fmt.Errorf("has %s in %s.auth: remove one of them",
			list(e.given("username", "user_id")), path)
	case l.Password != "" && l.UserID != "" && filled.UserDomainID+filled.UserDomainName != "":
		return fmt.Errorf("has %s with a user by ID in %s.auth: remove the domain of the user. "+
			"The domain of the project is project_domain_name or project_domain_id",
			list(e.given(domains...)), path)
	case l.Password != "" && filled.UserDomainID != "" && filled.UserDomainName != "":
		return fmt.Errorf("has two domains of the user in %s.auth: %s. Remove one of them",
			path, list(e.given(domains[:4]...)))
	}
	return nil
}

// noProject returns what to do about a password login that names no project.
func (e *entry) noProject() string {
	advice := e.misplaced("%s", "project_id", "project_name")
	switch {
	case len(e.given(credentialKeys()...)) > 0:
		advice = fmt.Sprintf("with a password the drivers use neither the application credential "+
			"nor a project. Remove %s or %s", e.at("auth.password"), list(e.given(credentialKeys()...)))
	case advice == "":
		advice = fmt.Sprintf("add project_id, or project_name with project_domain_name, to %s",
			e.at("auth"))
		if scope := e.given("domain_id", "domain_name"); len(scope) > 0 {
			advice += fmt.Sprintf(". A domain is no project: %s", list(scope))
		}
	}
	return "has no project in its login: " + advice + e.note
}
