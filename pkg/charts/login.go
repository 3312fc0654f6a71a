package charts

import (
	"cmp"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/clouds"
)

// Reader returns the content of a file in the pods of a driver.
type Reader func(path string) ([]byte, error)

// options are those of a login, as the drivers read them: gcfg is the name in [Global] of a
// cloud.conf, key that in a Secret for Manila after "os-", and clouds the path in an entry of
// clouds.yaml, by default that of the key below auth.
type options struct {
	AuthURL           string `gcfg:"auth-url" key:"authURL"`
	UserID            string `gcfg:"user-id" key:"userID"`
	Username          string `gcfg:"username" key:"userName" clouds:"auth.username"`
	Password          string `gcfg:"password" key:"password"`
	ProjectID         string `gcfg:"tenant-id" key:"projectID"`
	ProjectName       string `gcfg:"tenant-name" key:"projectName"`
	DomainID          string `gcfg:"domain-id" key:"domainID"`
	DomainName        string `gcfg:"domain-name" key:"domainName"`
	ProjectDomainID   string `gcfg:"tenant-domain-id" key:"projectDomainID"`
	ProjectDomainName string `gcfg:"tenant-domain-name" key:"projectDomainName"`
	UserDomainID      string `gcfg:"user-domain-id" key:"userDomainID"`
	UserDomainName    string `gcfg:"user-domain-name" key:"userDomainName"`
	CredentialID      string `gcfg:"application-credential-id" key:"applicationCredentialID"`
	CredentialName    string `gcfg:"application-credential-name" key:"applicationCredentialName"`
	CredentialSecret  string `gcfg:"application-credential-secret" key:"applicationCredentialSecret"`
	Token             string `gcfg:"token" key:"token"`
	TrustID           string `gcfg:"trust-id" key:"trustID"`
	TrusteeID         string `gcfg:"trustee-id" key:"trusteeID" clouds:"-"`
	TrusteePassword   string `gcfg:"trustee-password" key:"trusteePassword" clouds:"-"`
	Region            string `gcfg:"region" key:"region" clouds:"region_name"`
	EndpointType      string `gcfg:"os-endpoint-type" key:"endpointType" clouds:"endpoint_type"`
	CertFile          string `gcfg:"cert-file" key:"clientCertPath" clouds:"cert"`
	KeyFile           string `gcfg:"key-file" key:"clientKeyPath" clouds:"key"`
	CAFile            string `gcfg:"ca-file" key:"certAuthorityPath" clouds:"cacert"`
	CAFileContents    string `gcfg:"cafilecontents" key:"certAuthority" clouds:"-"`
	TLSInsecure       string `gcfg:"tls-insecure" key:"TLSInsecure" clouds:"-"`
	UseClouds         bool   `gcfg:"use-clouds" key:"useClouds" clouds:"-"`
	CloudsFile        string `gcfg:"clouds-file" key:"cloudsFile" clouds:"-"`
	Cloud             string `gcfg:"cloud" key:"cloud" clouds:"-"`
}

var step = regexp.MustCompile("([a-z])([A-Z])")

// inClouds returns the path of an option in an entry of clouds.yaml, "" for none.
func inClouds(f reflect.StructField) string {
	words := step.ReplaceAllString(f.Tag.Get("key"), "${1}_$2")
	return strings.TrimPrefix(cmp.Or(f.Tag.Get("clouds"), "auth."+strings.ToLower(words)), "-")
}

// entry is the only entry of the clouds.yaml that is written.
const entry = "clouds." + clouds.DefaultEntry + "."

// AddLogin says how a release gets the login in a clouds.yaml, as the chart does.
const AddLogin = "below credentials write `clouds: |`, and below that, indented, the whole " +
	"clouds.yaml with its line `clouds:`; or add --set-file=credentials.clouds=clouds.yaml"

// AddSecret adds the login in a Secret of Manila's driver, if it contains one.
func (v *Values) AddSecret(name string, data map[string][]byte, read Reader) error {
	o := &options{}
	for f, field := range reflect.ValueOf(o).Elem().Fields() {
		value := string(data["os-"+f.Tag.Get("key")])
		if field.Kind() == reflect.String {
			field.SetString(value)
			continue
		}
		on, err := strconv.ParseBool(cmp.Or(value, "false"))
		if err != nil {
			return v.addLogin(choice.Manila, name, nil, nil,
				fmt.Errorf("%s: os-useClouds must be true or false", name))
		}
		field.SetBool(on)
	}
	return v.addOptions(choice.Manila, name, o, func(f reflect.StructField) string {
		return "os-" + f.Tag.Get("key")
	}, read)
}

// addOptions adds the login that the driver makes of options, and remarks. The login depends on
// each option, or contains its value, or a remark names it. nameOf returns how it is called there.
func (v *Values) addOptions(
	kind choice.Kind, source string, o *options, nameOf func(reflect.StructField) string, read Reader,
) error {
	login := func(o options) (*clouds.Login, []string, error) {
		if o.CAFile == "" {
			o.CAFileContents = cmp.Or(o.CAFileContents, v.trusted)
		}
		return o.login(source, nameOf, read)
	}
	l, remarks, err := login(*o)
	kept, lost := map[string]bool{}, []string(nil)
	for _, value := range reflect.ValueOf(cmp.Or(l, &clouds.Login{}).AuthInfo).Fields() {
		kept[value.String()] = true
	}
	for field, value := range reflect.ValueOf(*o).Fields() {
		if value.IsZero() || value.String() == "false" { // the defaults
			continue
		}
		without := *o
		reflect.ValueOf(&without).Elem().FieldByIndex(field.Index).SetZero()
		same, _, _ := login(without)
		if err != nil || reflect.DeepEqual(l, same) && !kept[value.String()] {
			lost = append(lost, nameOf(field))
		}
	}
	if names := strings.Join(lost, ", "); err != nil && names != "" {
		err = fmt.Errorf("%w. None of its settings is taken over: %s", err, names)
	} else if names != "" {
		remarks = append(remarks, source+": the login is the same without "+names)
	}
	return v.addLogin(kind, source, l, remarks, err)
}

// ownWords replaces the words about a clouds.yaml by those of the options.
func ownWords(nameOf func(reflect.StructField) string) *strings.Replacer {
	words := []string{entry + "auth", "it"}
	names := []string{
		"key " + clouds.CAKey + " of the Secret", "credentials.cacert", "key " + clouds.Key + " of ", "",
	}
	for f := range reflect.TypeFor[options]().Fields() {
		path := inClouds(f)
		if path == "" {
			continue
		}
		_, word, _ := strings.Cut("."+path, "_") // other words are also English
		names = append(names, entry+path, nameOf(f))
		if path == clouds.CAKey {
			names = append(names, "key "+path+" of ", nameOf(f)+" of ")
		}
		if last := path[strings.LastIndex(path, ".")+1:]; word != "" {
			words = append(words, last, nameOf(f))
		}
	}
	return strings.NewReplacer(slices.Concat(names, words)...)
}

// login returns the login that the driver makes of the options, and remarks. nameOf returns how
// they are called there. Errors contain no value.
func (o *options) login(
	source string, nameOf func(reflect.StructField) string, read Reader,
) (*clouds.Login, []string, error) {
	cloud, err := o.base(read)
	if err != nil {
		return nil, nil, fmt.Errorf("%s: %w", source, err)
	}
	for field, value := range reflect.ValueOf(*o).Fields() {
		if path := inClouds(field); path != "" && !value.IsZero() {
			cloud = merged(cloud, nested(path, value.String()))
		}
	}
	if o.TLSInsecure == "true" {
		cloud["verify"] = false
	}
	var remarks []string
	ca := []byte(o.CAFileContents)
	if path, _ := cloud["cacert"].(string); path != "" {
		if ca, err = read(path); err == nil {
			delete(cloud, "cacert")
		} else if clouds.IsOtherFile(path) {
			remarks = append(remarks, fmt.Sprintf("%s: the CA is the file %s, which is not readable "+
				"here (%v): add it with --set-file=credentials.cacert=FILE", source, path, err))
		}
	}
	text, err := yaml.Marshal(map[string]any{"clouds": map[string]any{clouds.DefaultEntry: cloud}})
	if err != nil {
		return nil, nil, err
	}
	l, err := clouds.Content{
		Name: source, CAElsewhere: true, Data: map[string][]byte{clouds.Key: text, clouds.CAKey: ca},
	}.Login()
	own := ownWords(nameOf)
	plain := func(text string) string { return own.Replace(line.ReplaceAllString(text, "")) }
	if err != nil {
		return nil, remarks, errors.New(plain(err.Error()))
	}
	for _, one := range l.Remarks {
		remarks = append(remarks, plain(one))
	}
	return l, remarks, nil
}

var line = regexp.MustCompile(` \(line \d+\)`)

// NoLogin adds why the login of a driver is not known. Then the values contain none.
func (v *Values) NoLogin(format string, args ...any) {
	v.Remark("login", "The values contain none, and no CA: "+format, args...)
	v.noLogin = true
	delete(v.content, "credentials")
}

// Trust adds the CAs, in PEM, that the driver trusts besides those of its login.
func (v *Values) Trust(cas string) { v.trusted = cas }

// addLogin sets the credentials, or adds the remark that they cannot be taken over. The values
// contain one login for both drivers.
func (v *Values) addLogin(
	kind choice.Kind, source string, l *clouds.Login, remarks []string, err error,
) error {
	for _, one := range remarks {
		v.Remark("login", "%s", one)
	}
	if err != nil {
		v.NoLogin("%v. Then %s.", err, AddLogin)
		return nil
	}
	for of, other := range v.logins {
		differ := differing(other, l)
		switch {
		case len(differ) == 0:
		case of == kind:
			return fmt.Errorf("there are several logins, and a release has one: %s contains another one, "+
				"which differs in %s. Keep this installation while volumes, snapshots or classes name "+
				"several", source, strings.Join(differ, ", "))
		default:
			const secret = "manila-credentials"
			v.NoLogin("the drivers have different logins (%s). Create Secret openstack-credentials with a "+
				"clouds.yaml for Cinder, and Secret %s with one for Manila, in the namespace of the release.",
				strings.Join(differ, ", "), secret)
			v.Set(choice.Manila, "manila.credentialsSecret", secret, "")
		}
	}
	if v.logins[kind] = l; v.noLogin {
		return nil
	}
	v.Set("", "credentials.clouds", string(l.CloudsYAML()), "")
	if l.CA != "" {
		v.Set("", "credentials.cacert", l.CA, "")
	}
	return nil
}

// differing returns the keys of clouds.yaml in which two logins differ.
func differing(a, b *clouds.Login) []string {
	entries := make([]map[string]any, 2)
	for i, l := range []*clouds.Login{a, b} {
		_ = yaml.Unmarshal(l.CloudsYAML(), &entries[i]) // its own text
	}
	differ := differs(entries[0], entries[1], "")
	for _, path := range differs(entries[1], entries[0], "") {
		if !slices.Contains(differ, path) {
			differ = append(differ, path)
		}
	}
	if a.CA != "" && b.CA != "" && a.CA != b.CA { // the one that is there serves both
		differ = append(differ, clouds.CAKey)
	}
	for i := range differ {
		differ[i] = strings.TrimPrefix(differ[i], entry)
	}
	return differ
}
