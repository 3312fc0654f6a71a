package openstack_test

import (
	"strings"
	"testing"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

func TestCheckCARejectsUnusableBundles(t *testing.T) {
	t.Parallel()
	ca := newSimulated(t, simulator.Config{TLS: true}).ca()
	broken := strings.Replace(ca, "\nMII", "\nAAA", 1)
	for name, test := range map[string]struct{ bundle, want string }{
		"a certificate":             {ca, ""},
		"two, and text around them": {"# ours\n" + ca + "# theirs\n" + ca, ""},
		"carriage returns":          {strings.ReplaceAll(ca, "\n", "\r\n"), ""},
		"nothing":                   {"", "contains no PEM certificate"},
		"text":                      {"secret-text", "contains no PEM certificate"},
		"cut off":                   {ca[:len(ca)/2], "contains no PEM certificate"},
		"a private key": {
			strings.ReplaceAll(ca, " CERTIFICATE", " PRIVATE KEY"),
			"contains no PEM certificate",
		},
		"a certificate that is none":  {broken, "one that cannot be parsed"},
		"one of two is none":          {ca + broken, "one that cannot be parsed"},
		"DER":                         {"\x30\x82\x01\x34", "is not UTF-8 text"},
		"bytes that are not in UTF-8": {"# \xfc\n" + ca, "is not UTF-8 text"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := openstack.CheckCA([]byte(test.bundle))
			if (err == nil) != (test.want == "") {
				t.Fatalf("got %v, want %q", err, test.want)
			}
			if err != nil {
				wantFragment(t, err.Error(), test.want)
				if strings.Contains(err.Error(), "secret") {
					t.Errorf("the error quotes the bundle: %v", err)
				}
			}
		})
	}
}
