package openstack_test

import (
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestCAHasThreeSources(t *testing.T) {
	t.Parallel()
	ca := newSimulated(t, simulator.Config{TLS: true}).ca()
	entry := auth(userByID, pass, "project_id: p") + "    cacert: "
	inline := entry + "|\n      " + strings.ReplaceAll(strings.TrimSpace(ca), "\n", "\n      ") + "\n"
	dos := strings.ReplaceAll(ca, "\n", "\r\n")
	broken := strings.Replace(ca, "\nMII", "\nAAA", 1)
	const (
		path      = "/home/me/ca.pem"
		secretKey = "key cacert of Secret ns/name"
		config    = "key ca-bundle.pem of ConfigMap ns/ca"
		unusable  = " contains no PEM certificate, or one that cannot be parsed. "
	)
	for name, test := range map[string]struct {
		text, secret, config string
		// want is the CA, or the start of the error.
		want string
	}{
		"none":                         {entry + "\n", "", "", ""},
		"blank texts":                  {entry + "' '\n", "\n", " \n\t", ""},
		"Secret before ConfigMap":      {inline, "# s\n" + ca, "# c\n" + ca, "# s\n" + ca},
		"ConfigMap if Secret is blank": {inline, "\n", "# c\n" + ca, "# c\n" + ca},
		"clouds.yaml at last":          {inline, "", "", ca},
		"carriage returns":             {entry, dos, "", dos},
		"a path beside a CA":           {entry + path, "", ca, ca},
		"a path of the system":         {entry + "/etc/ssl/cert.pem", "", "", ""},
		"a comment that is not UTF-8":  {entry, "# \xfc\n" + ca, "", "# ?\n" + ca},
		"a path alone": {
			entry + path, "", "\n", fromNS + " has a path in clouds.openstack.cacert (line 8), and pods " +
				"do not contain that file: put the PEM into key cacert of the Secret",
		},
		"text in the Secret":    {entry, "s3cr3t", ca, secretKey + unusable},
		"text in the ConfigMap": {entry, "", "s3cr3t", config + unusable},
		"one of two is broken":  {entry, ca + broken, "", secretKey + unusable},
		"DER":                   {entry, "\x30\x82\x01\x34", "", secretKey + unusable},
		"a private key": {
			entry, strings.ReplaceAll(ca, " CERTIFICATE", " PRIVATE KEY"), "",
			secretKey + unusable,
		},
		"cut off in clouds.yaml": {
			entry + "'-----BEGIN CERTIFICATE-----'", "", "",
			fromNS + " in clouds.openstack.cacert (line 8)" + unusable,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := content(test.text)
			c.Data["cacert"], c.CA = []byte(test.secret), test.config
			login, err := c.Login()
			if err != nil {
				assert.Check(t, test.want != "" && strings.HasPrefix(err.Error(), test.want),
					"got %v, want %q", err, test.want)
				return
			}
			assert.Check(t, is.DeepEqual(test.want, login.CA), "CA")
			wantSurvives(t, login)
		})
	}
}
