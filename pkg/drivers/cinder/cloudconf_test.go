package cinder_test

import (
	"errors"
	"maps"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/drivers/cinder"
)

const (
	cloudsFile = "/etc/kubernetes/secret/clouds.yaml"
	caFile     = "/etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem"
	secret     = "s3cr3t"

	globalText = "[Global]\nuse-clouds = true\nclouds-file = " + cloudsFile + "\ncloud = openstack\n"
)

func options() cinder.Options { return cinder.Options{CloudsFile: cloudsFile, Cloud: "openstack"} }

// inSection returns the text after [Global] of a cloud.conf with these lines in [BlockStorage].
func inSection(lines ...string) string {
	return "\n[BlockStorage]\n" + strings.Join(lines, "\n") + "\n"
}

// userTexts returns what a user writes, and what stays of it after [Global].
func userTexts() map[string]struct{ user, want string } {
	texts := map[string]struct{ user, want string }{
		"blank lines and comments": {"\n ; " + secret + "\n\t# " + secret + "\n\n", ""},
		"in-tree leftovers":        {inTree, inSection("ignore-volume-az = yes")},
		"other sections' settings": {"[Global]\nca-file = /x\n[BlockStorage]\na = 1\n[Metadata]\n" +
			"a = 2\n[Route]\na", inSection("a = 1")},
		"sections of similar names": {"[BlockStorages]\na = 1\n[Block-Storage]\na = 2\n" +
			"[LoadBalancer \"BlockStorage\"]\na = 3\n", ""},
		"section folds as in gcfg": {"[Bloc\u212astorage]\na = 1\n", inSection("a = 1")},
		"space in the header":      {"  [ \tBlockStorage ] ; comment\na = 1\n", inSection("a = 1")},
		"subsection and section": {
			"[BlockStorage \"x\"]\na = 1\n[BlockStorage]\na = 2\n", inSection("a = 2"),
		},
		"repeated section": {
			"[BlockStorage]\na = 1\n[Global]\na = 2\n[blockstorage]\na = 3\n", inSection("a = 1", "a = 3"),
		},
		"carriage returns": {
			"[BlockStorage]\r\na = 1 \r\nb\r\nc = \\\r\nd\r\n", inSection("a = 1", "b", "c = \\\nd"),
		},
		"byte order mark": {"\ufeff[BlockStorage]\na = 1\n", inSection("a = 1")},
	}
	for name, lines := range map[string][2]string{
		"settings":                    {"rescan-on-resize = yes\n", "rescan-on-resize = yes"},
		"a user's ignore-volume-az":   {"ignore-volume-az = true\n", "ignore-volume-az = true"},
		"trust-device-path alone":     {"trust-device-path\n", ""},
		"trust-device-path in case":   {"TRUST-Device-Path = x\ntru\u017ft-device-path\nx", "x"},
		"similar names":               {"trust-device-paths = 1", "trust-device-paths = 1"},
		"repeated setting, last wins": {"a = 1\nA = 2\n", "a = 1\nA = 2"},
		"spaces and tabs":             {"\t a\t=\t  1 2\t3  \n", "a = 1 2\t3"},
		"without a value":             {"a\nb ; comment\nc # comment", "a\nb\nc"},
		"empty value":                 {"a =\nb = ; comment\nc = \"\"\n", "a =\nb =\nc = \"\""},
		"comment after value":         {"a = 1 ; x\nb = 2# x\nc = 3;x", "a = 1\nb = 2\nc = 3"},
		"quoted": {
			"a = \" ; # \\\\ \\\" \\n \\t = \" ; x\n", "a = \" ; # \\\\ \\\" \\n \\t = \"",
		},
		"quoted in part":         {"a = x\" y \"z \" \"\n", "a = x\" y \"z \" \""},
		"escaped quotation mark": {"a = \\\"x\\\"\n", "a = \\\"x\\\""},
		"continued line":         {"a = 1 \\\n  2 \\\n\"3\" ; x\nb", "a = 1 \\\n  2 \\\n\"3\"\nb"},
		"continued into nothing": {"a = 1\\\n", "a = 1\\\n"},
		"value like a section":   {"a = [Global]\nb = a = c\n", "a = [Global]\nb = a = c"},
		"names beyond ASCII":     {"ключ9 = значение\n", "ключ9 = значение"},
	} {
		want := ""
		if lines[1] != "" {
			want = inSection(lines[1])
		}
		texts[name] = struct{ user, want string }{"[BlockStorage]\n" + lines[0], want}
	}
	// Earlier operators read the text with an ini parser.
	const on = "[BlockStorage]\nrescan-on-resize = on\n"
	settings := inSection("rescan-on-resize = on")
	maps.Copy(texts, map[string]struct{ user, want string }{
		"colon for =":       {"[BlockStorage]\nrescan-on-resize : on ; x\n", settings},
		"backticks":         {"[BlockStorage]\nrescan-on-resize = `on` # x\n", settings},
		"colon, backticks":  {"\ufeff[blockstorage]\r\nrescan-on-resize:`on`\r\n", settings},
		"no section":        {"password = \"" + secret + "\n" + on, settings},
		"another section":   {"[Global]\nsecret_name: \"" + secret + "\n\x00 \\d\n" + on, settings},
		"a section after":   {on + "[Global]\n9 = " + secret + "\n", settings},
		"continued header":  {"[Global]\na_b = c \\\n" + on, ""},
		"continued setting": {"x\n[BlockStorage]\na = \\\nb: c\n", inSection("a = \\\nb: c")},
		"not a cloud.conf":  {"{\"password\": \"" + secret + "\"}", ""},
	})
	return texts
}

const inTree = `[Global]
secret-name = openstack-credentials
secret-namespace = kube-system
region = regionOne
password = "` + secret + `"
use-clouds = maybe
ca-file = /etc/kubernetes/static-pod-resources/configmaps/cloud-config/ca-bundle.pem
[LoadBalancer]
use-octavia = True
[BlockStorage]
trust-device-path = false
ignore-volume-az = yes
[Metadata]
search-order = configDrive
`

// A generated cloud.conf is valid input, with the same output.
func TestCloudConfContainsSettingsOfAdministrator(t *testing.T) {
	t.Parallel()
	for name, test := range userTexts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := []byte(test.user)
			for range 2 {
				checkRoundTrip(t, text)
				conf, err := cinder.CloudConf(text, options())
				assert.NilError(t, err)
				assert.Assert(t, is.DeepEqual(globalText+test.want, string(conf)), "cloud.conf")
				text = conf
			}
		})
	}
}

func TestCloudConfGlobal(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]cinder.Options{
		"without CA":       options(),
		"with CA":          {CloudsFile: cloudsFile, Cloud: "openstack", CAFile: caFile},
		"other entry":      {CloudsFile: cloudsFile, Cloud: "production", CAFile: caFile},
		"entry to quote":   {CloudsFile: cloudsFile, Cloud: ` my "cloud"; \n #1 `},
		"entry of lines":   {CloudsFile: cloudsFile, Cloud: "a\n[Global]\n\tuse-clouds = false\\"},
		"entry in Unicode": {CloudsFile: cloudsFile, Cloud: "Wolke ☁"},
		"paths to quote":   {CloudsFile: "/a b/c;d", Cloud: "x", CAFile: "/e #f"},
	} {
		conf, err := cinder.CloudConf([]byte(inTree), o)
		assert.NilError(t, err, name)
		want := map[string]globalConfig{"": {
			UseClouds: true, CloudsFile: o.CloudsFile, Cloud: o.Cloud, CAFile: o.CAFile,
		}}
		assert.Check(t, is.DeepEqual(want, readGlobal(t, conf)), "[Global], %s", name)
		assert.Check(t, (o.CAFile != "") == strings.Contains(string(conf), "ca-file"),
			"ca-file with CA %q:\n%s", o.CAFile, conf)
		for _, stranger := range []string{
			secret, "secret-name", "region", "Metadata", "LoadBalancer", "trust-device-path",
		} {
			assert.Check(t, !strings.Contains(string(conf), stranger),
				"cloud.conf has %q:\n%s", stranger, conf)
		}
	}
}

func TestOptionsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, cloud := range []string{"a\rb", "a\x00b", "a\xffb"} {
		conf, err := cinder.CloudConf(nil, cinder.Options{CloudsFile: cloudsFile, Cloud: cloud})
		var fault *cinder.SyntaxError
		assert.Check(t, conf == nil && err != nil && !errors.As(err, &fault),
			"cloud %q: got %q and %v, want an error that does not blame the user's text", cloud, conf, err)
	}
}

const (
	faultQuotes = "a quotation mark is not closed on its line"
	faultEscape = `between quotation marks a backslash is valid only in \\, \", \n and \t, ` +
		`and in the name of a section only in \\ and \"`
	faultBackslash = `a backslash is valid only before a quotation mark or at the end of a line. ` +
		`Write it as "\\", with the quotation marks`
	faultEncoding  = "the text is not UTF-8 without NUL"
	faultSection   = `a section is not written as [name] or [name "subsection"]`
	faultName      = "a name is followed by something other than = or the end of the line"
	faultTrailing  = "only a comment may follow the end of a section's header or of a value"
	faultCharacter = "a character is not allowed here. " +
		"Settings are written as name = value; comments begin with ; or #"
	faultValue = "the CSI driver does not accept this value: " +
		"numbers are written in digits, switches as true or false"
)

func faults() []string {
	return []string{
		faultQuotes, faultEscape, faultBackslash, faultEncoding,
		faultSection, faultName, faultTrailing, faultCharacter, faultValue,
	}
}

// broken is a text that the driver cannot read.
type broken struct {
	user    string
	line    int
	problem string
}

func brokenTexts() map[string]broken {
	return map[string]broken{
		"header without end":        {"[Global\npassword = " + secret, 1, faultSection},
		"header without name":       {"[]\n", 1, faultSection},
		"header of a string":        {"[\"" + secret + "\"]", 1, faultSection},
		"header of two words":       {"[Block Storage]\n", 1, faultSection},
		"empty subsection":          {"\n[a \"\"]\n", 2, faultSection},
		"dotted subsection":         {"[a." + secret + "]\n", 1, faultCharacter},
		"setting behind the header": {"[Global] password = " + secret, 1, faultTrailing},
		"open quotation":            {"[BlockStorage]\n\na = \"" + secret + "\nb = x", 3, faultQuotes},
		"open subsection":           {"[BlockStorage \"" + secret + "\n", 1, faultQuotes},
		"backslash":                 {"[BlockStorage]\na = b\nc = \\" + secret, 3, faultBackslash},
		"backslash, continued line": {"[BlockStorage]\na = \\\nb\\c", 2, faultBackslash},
		"unknown escape":            {"[BlockStorage]\npassword = \"" + secret + "\\d\"", 2, faultEscape},
		"unknown escape in name":    {"[a \"\\n\"]", 1, faultEscape},
		"underscore in a name":      {"[BlockStorage]\nsecret_name = " + secret, 2, faultCharacter},
		"name that is a number":     {"[BlockStorage]\n9" + secret, 2, faultCharacter},
		"lone =":                    {"[BlockStorage]\n= " + secret, 2, faultCharacter},
		"two words":                 {"[BlockStorage]\npassword " + secret, 2, faultName},
		"string for name":           {"[BlockStorage]\n\"" + secret + "\"", 2, faultCharacter},
		"second line of a password": {"[BlockStorage]\npassword = x\n$" + secret, 3, faultCharacter},
		"NUL":                       {"[BlockStorage]\npassword = " + secret + "\x00", 2, faultEncoding},
		"NUL in a comment":          {"[BlockStorage]\n\n; \x00", 3, faultEncoding},
		"Latin-1":                   {"[BlockStorage]\npassword = \xfc" + secret, 2, faultEncoding},
		"byte order mark inside":    {"[BlockStorage]\n\ufeffa = b", 2, faultCharacter},
		"many lines":                {strings.Repeat("[a]\r\n", 999) + "[" + secret, 1000, faultSection},
		"no switch, in case":        {"[blockstorage]\nRESCAN-on-resize = " + secret, 2, faultValue},
		"no switch, then one": {"[BlockStorage]\nignore-volume-az = " + secret +
			"\nignore-volume-az = true", 2, faultValue},
		"empty switch":         {"[BlockStorage]\nignore-volume-microversion =", 2, faultValue},
		"no number":            {"[BlockStorage]\n\nnode-volume-attach-limit = " + secret, 3, faultValue},
		"number without value": {"[BlockStorage]\nnode-volume-attach-limit", 2, faultValue},
		"number too large": {
			"[BlockStorage]\n\n\nnode-volume-attach-limit = \\\n9223372036854775808", 4, faultValue,
		},
		"after a byte order mark": {"\ufeff[BlockStorage]\na = \"" + secret, 2, faultQuotes},
	}
}

func TestBrokenCloudConf(t *testing.T) {
	t.Parallel()
	for name, test := range brokenTexts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf, err := cinder.CloudConf([]byte(test.user), options())
			var fault *cinder.SyntaxError
			assert.Assert(t, conf == nil && errors.As(err, &fault), "got %q and error %v", conf, err)
			want := cinder.SyntaxError{Line: test.line, Problem: test.problem}
			assert.Check(t, is.DeepEqual(want, *fault), "error")
			assert.Check(t, !strings.Contains(err.Error(), secret), "error holds a secret: %v", err)
			checkRoundTrip(t, []byte(test.user))
		})
	}
}

// 1 MiB is the maximum size of a ConfigMap.
func TestLargeCloudConfIsReadInTime(t *testing.T) {
	t.Parallel()
	checkRoundTrip(t, []byte("[BlockStorage]\n"+strings.Repeat("a = 12\n", 1<<20/7)))
}
