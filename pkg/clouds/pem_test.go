package clouds_test

import (
	"fmt"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// Each mistake is an error if there is no other certificate, and a remark behind one.
func TestEachBlockOfPEMThatIsNotReadIsNamed(t *testing.T) {
	t.Parallel()
	cloud, err := simulator.New(simulator.Config{TLS: true})
	assert.NilError(t, err)
	ca := string(cloud.CA())
	const begin, end = "-----BEGIN CERTIFICATE-----", "-----END CERTIFICATE-----"
	lines := strings.Count(ca, "\n")
	for text, want := range map[string]string{
		strings.Replace(ca, "-----B", "----B", 1):     "line {first} must be " + begin + ", with five",
		strings.Replace(ca, "-----E", "—E", 1):        "line {last} must be " + end + ", with five",
		strings.ReplaceAll(ca, " CERT", " X509 CERT"): "line {first} must be " + begin + ", with five",
		strings.ReplaceAll(ca, "IFIC", "FIC"):         "line {first} must be " + begin + ", with five",
		strings.ReplaceAll(ca, "\n", " "):             "block {block} (line {first}) is in one line",
		strings.ReplaceAll(ca, "\n", `\n`):            `block {block} (line {first}) contains \n as two`,
		"> " + strings.ReplaceAll(ca, "\n", "\n> "):   "block {block} (line {first}) is indented, or",
		"\ufeff" + ca:                                         "or follows other text, U+FEFF (an",
		strings.TrimSuffix(ca, end+"\n"):                      "block {block} (line {first}) has no end",
		strings.ReplaceAll(ca, "\n", "\r"):                    "block {block} (line {first}) is in one",
		strings.Replace(ca, end, end+" end", 1):               "line {last} must contain nothing beside",
		strings.TrimSpace(ca) + ca:                            "line {last} contains the end of",
		strings.Replace(ca, "\n"+end, end, 1):                 "line {before} must begin with " + end,
		strings.Replace(ca, "\nMII", "\nMII\u200b", 1):        "line {second} contains what is no",
		begin + "\n...\n" + end + "\n":                        "line {second} contains what is no",
		strings.ReplaceAll(ca, "CERTIFICATE", "X509 CRL"):     "is a list of revoked",
		strings.ReplaceAll(ca, " CERTIFICATE", " PUBLIC KEY"): "is a public key",
	} {
		for number, before := range []string{"", ca} {
			c, first := content(cloudsText), 1+number*lines
			c.CA = before + text
			login, err := c.Login()
			found := fmt.Sprint(err)
			if number > 0 {
				assert.NilError(t, err)
				found = strings.Join(login.Remarks, "\n")
			}
			want := strings.NewReplacer("{block}", fmt.Sprint(number+1), "{first}", fmt.Sprint(first),
				"{second}", fmt.Sprint(first+1), "{before}", fmt.Sprint(first+lines-2),
				"{last}", fmt.Sprint(first+lines-1)).Replace(want)
			assert.Check(t, is.Contains(found, want))
		}
	}
}
