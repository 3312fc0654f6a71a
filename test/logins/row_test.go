// Package logins_test compares the operators with the CSI drivers: an operator accepts credentials
// if and only if each driver of its pods works with what the operator generates from them, with the
// same login and the same endpoints.
//
// The files testdata/rows/*.yaml are tables of credentials. A row contains a Secret, the catalog of
// a cloud, and what has to happen. If a row says nothing else, both operators accept the
// credentials, and all drivers use the standard login and the standard endpoints. If an operator
// refuses the credentials at any step, it generates nothing: its driver gets what people wrote, and
// has to fail too, or the row contains the reason.
package logins_test

import (
	"bytes"
	"crypto/tls"
	"errors"
	"fmt"
	"log"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
	"gotest.tools/v3/assert"
	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/openshift/library-go/pkg/crypto"
)

// row is a row of the table.
type row struct {
	Name string
	// Clouds is key clouds.yaml of the Secret, CACert its key cacert, and Keys are others. Entry is an
	// entry of clouds.yaml named openstack, without its indentation.
	Clouds, Entry *string
	CACert        *string
	Keys          map[string]string
	// ConfigMap is the CA in the ConfigMap of the cluster.
	ConfigMap string
	// TLS is "private" or "system", the CA of the cloud, or "" for HTTP.
	TLS string
	// Catalog is the name of a catalog in testdata/catalogs.yaml.
	Catalog string

	// Refused is a part of the message of both operators, Cinder and Manila of only one.
	Refused, Cinder, Manila string
	// Login is the body of the login without what follows from the rest.
	Login map[string]any
	// Endpoints are the paths of services at other places than in the standard catalog.
	Endpoints map[string]string
	// Drivers are parts of what drivers do in another way than the operator.
	Drivers map[string]string
	// Reason says why drivers differ from each other or from the operator.
	Reason string
}

// standard is the login of ${AUTH}.
const standard = `{"project":{"domain":{"name":"Default"},"name":"demo"},` +
	`"user":{"domain":{"name":"Default"},"name":"demo","password":"secret"}}`

// wantedLogin returns the login of a row.
func (r row) wantedLogin() string {
	if r.Login == nil {
		return standard
	}
	return compact(r.Login)
}

// wantedEndpoints returns the paths of services that a driver uses.
func (r row) wantedEndpoints(services ...string) map[string]string {
	wanted := map[string]string{
		"compute": "/compute/v2.1", "volumes": "/volume/v3/p1", "shares": "/share/v2",
	}
	maps.Copy(wanted, r.Endpoints)
	maps.DeleteFunc(wanted, func(name, _ string) bool { return !slices.Contains(services, name) })
	return wanted
}

// refusal returns a part of the message of the operator of a driver, "" if it accepts.
func (r row) refusal(driver string) string {
	return r.Refused + map[string]string{"cinder": r.Cinder, "manila": r.Manila}[driver]
}

// content is a Secret and a ConfigMap.
type content struct {
	secret map[string][]byte
	ca     string
	// refused contains the drivers whose operators refuse the content.
	refused map[string]bool
}

// content replaces the placeholders of a row.
func (r row) content(w *world, c *cloud) content {
	text := r.Clouds
	if r.Entry != nil {
		entry := "clouds:\n  openstack:\n    " + strings.ReplaceAll(*r.Entry, "\n", "\n    ")
		text = &entry
	}
	secret := map[string][]byte{}
	for key, value := range r.Keys {
		secret[key] = w.replace(value, c)
	}
	for key, value := range map[string]*string{"clouds.yaml": text, "cacert": r.CACert} {
		if value != nil {
			secret[key] = w.replace(*value, c)
		}
	}
	return content{secret, string(w.replace(r.ConfigMap, c)), map[string]bool{}}
}

// world contains what all rows share.
type world struct {
	folder   string
	catalogs map[string]catalog
}

// TestMain creates the CAs of all clouds. The one named system is that of the system roots, in this
// process and in the drivers.
func TestMain(m *testing.M) {
	os.Exit(withAuthorities(m.Run))
}

func withAuthorities(run func() int) int {
	folder, err := os.MkdirTemp("", "logins")
	if err != nil {
		log.Print(err)
		return 1
	}
	defer func() { _ = os.RemoveAll(folder) }()
	for _, name := range []string{"private", "system", "other"} {
		if err := writeAuthority(filepath.Join(folder, name)); err != nil {
			log.Print(err)
			return 1
		}
	}
	for name, file := range map[string]string{
		"SSL_CERT_FILE": "system.pem", "SSL_CERT_DIR": "none", "HOME": "none",
	} {
		if err := os.Setenv(name, filepath.Join(folder, file)); err != nil {
			log.Print(err)
			return 1
		}
	}
	return run()
}

// writeAuthority writes a CA to path.pem, and a certificate of it to path.crt and path.key.
func writeAuthority(path string) error {
	keys := crypto.ECDSAKeyPairGenerator{Curve: crypto.P256}
	signer, err := crypto.NewSigningCertificate(filepath.Base(path), keys)
	if err != nil {
		return err
	}
	ca := &crypto.CA{Config: signer, SerialGenerator: &crypto.RandomSerialGenerator{}}
	issued, err := ca.NewServerCertificate(sets.New("127.0.0.1", "localhost"), keys)
	if err != nil {
		return err
	}
	return errors.Join(signer.WriteCertConfigFile(path+".pem", path+".ca-key"),
		issued.WriteCertConfigFile(path+".crt", path+".key"))
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{folder: filepath.Dir(os.Getenv("SSL_CERT_FILE"))}
	decode(t, "testdata/catalogs.yaml", &w.catalogs)
	return w
}

// decode decodes a YAML file without unknown fields.
func decode(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	assert.NilError(t, err)
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	decoder.KnownFields(true)
	assert.NilError(t, decoder.Decode(into), file)
}

// readRows returns the rows of all tables.
func readRows(t *testing.T, w *world) []row {
	t.Helper()
	files, err := filepath.Glob("testdata/rows/*.yaml")
	assert.Assert(t, err == nil && len(files) != 0, "no tables: %v", err)
	var rows []row
	for _, file := range files {
		var table []row
		decode(t, file, &table)
		for _, r := range table {
			if _, found := w.catalogs[r.Catalog]; r.Catalog != "" && !found {
				t.Errorf("%s: no catalog %s", r.Name, r.Catalog)
			}
			assert.Check(t, (len(r.Drivers) > 0) == (r.Reason != ""),
				"%s: a row has a reason if and only if it has drivers", r.Name)
			r.Name = strings.TrimSuffix(filepath.Base(file), ".yaml") + "/" + r.Name
			if slices.ContainsFunc(rows, func(o row) bool { return o.Name == r.Name }) {
				t.Errorf("two rows are named %s", r.Name)
			}
			rows = append(rows, r)
		}
	}
	return rows
}

// cloud starts the cloud of a row.
func (w *world) cloud(t *testing.T, r row) *cloud {
	t.Helper()
	offered := w.catalogs["standard"]
	if r.Catalog != "" {
		offered = w.catalogs[r.Catalog]
	}
	if r.TLS == "" {
		return newCloud(t, offered, nil)
	}
	file := filepath.Join(w.folder, r.TLS)
	certificate, err := tls.LoadX509KeyPair(file+".crt", file+".key")
	assert.NilError(t, err)
	return newCloud(t, offered, &certificate)
}

// auth is ${AUTH}: a complete login in one line. ${USER} and ${PROJECT} are parts of it.
const (
	auth    = `{auth_url: "${URL}/v3", ${USER}, ${PROJECT}}`
	user    = `username: demo, password: secret, user_domain_name: Default`
	project = `project_name: demo, project_domain_name: Default`
)

// replace replaces placeholders. A CA at the start of a line gets the indentation of that line.
func (w *world) replace(text string, c *cloud) []byte {
	text = strings.ReplaceAll(text, "${AUTH}", auth)
	text = strings.NewReplacer("${USER}", user, "${PROJECT}", project).Replace(text)
	text = strings.NewReplacer("${URL}", c.URL, "${LATIN1}", "\xfc",
		"${HOST}", c.Listener.Addr().String()).Replace(text)
	placeholder := regexp.MustCompile(`(?m)^([ \t]*)\$\{CA:(\w+)\}`)
	return []byte(placeholder.ReplaceAllStringFunc(text, func(found string) string {
		m := placeholder.FindStringSubmatch(found)
		content, err := os.ReadFile(filepath.Join(w.folder, m[2]+".pem"))
		if err != nil {
			return err.Error()
		}
		return m[1] + strings.ReplaceAll(strings.TrimSpace(string(content)), "\n", "\n"+m[1])
	}))
}

// outcome describes what an operator or a driver did, in comparison with a row. It contains no
// address.
func (r row) outcome(c *cloud, err error, logins []string, endpoints map[string]string,
	services ...string,
) string {
	for name, url := range endpoints {
		endpoints[name] = strings.TrimPrefix(url, c.URL)
	}
	wanted := r.wantedEndpoints(services...)
	switch {
	case err != nil:
		return fails + c.anonymous(err.Error())
	case !slices.Equal(logins, []string{r.wantedLogin()}):
		return "logs in with " + strings.Join(logins, " and ")
	case !maps.Equal(endpoints, wanted):
		return c.anonymous(fmt.Sprintf("uses %s", compact(endpoints)))
	}
	return works
}

// works is the outcome that a row describes, fails starts the outcome of an error. Other outcomes
// are another login, or other endpoints.
const (
	works = "works"
	fails = "fails: "
)

// anonymous removes from a message what changes between runs.
func (c *cloud) anonymous(message string) string {
	message = strings.ReplaceAll(message, c.URL, "${URL}")
	message = strings.ReplaceAll(message, c.Listener.Addr().String(), "${HOST}")
	message = regexp.MustCompile(`(?s)-----BEGIN.*?-----END CERTIFICATE-----\s*`).
		ReplaceAllLiteralString(message, "${CA} ")
	// Whether there is a slash in a CA that is used as a path is random.
	message = strings.ReplaceAll(message, "file name too long", "no such file or directory")
	message = regexp.MustCompile(`/\S*/(cinder|cinder-node|manila)/`).ReplaceAllString(message, "")
	return strings.Join(strings.Fields(message), " ")
}
