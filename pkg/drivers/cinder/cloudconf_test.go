package cinder_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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

func userTexts() map[string]struct{ user, want string } {
	return map[string]struct{ user, want string }{
		"nothing":                  {"", ""},
		"blank lines and comments": {"\n ; " + secret + "\n\t# " + secret + "\n\n", ""},
		"settings": {
			"[BlockStorage]\nrescan-on-resize = yes\n",
			inSection("rescan-on-resize = yes"),
		},
		"a user's ignore-volume-az": {
			"[BlockStorage]\nignore-volume-az = true\n",
			inSection("ignore-volume-az = true"),
		},
		"trust-device-path": {
			"[BlockStorage]\ntrust-device-path = /dev/x\nrescan-on-resize = on",
			inSection("rescan-on-resize = on"),
		},
		"trust-device-path alone": {"[BlockStorage]\ntrust-device-path\n", ""},
		"trust-device-path in case": {
			"[BlockStorage]\nTRUST-Device-Path = true\n" +
				"tru\u017ft-device-path\nx",
			inSection("x"),
		},
		"similar names": {
			"[BlockStorage]\ntrust-device-paths = 1\ndevice-path = 2",
			inSection("trust-device-paths = 1", "device-path = 2"),
		},
		"in-tree leftovers": {inTree, inSection("ignore-volume-az = yes")},
		"other sections' settings": {"[Global]\nca-file = /x\n[BlockStorage]\na = 1\n[Metadata]\n" +
			"a = 2\n[Route]\na", inSection("a = 1")},
		"sections of similar names": {"[BlockStorages]\na = 1\n[Block-Storage]\na = 2\n" +
			"[LoadBalancer \"BlockStorage\"]\na = 3\n", ""},
		"case of the section":      {"[blockSTORAGE]\na = 1\n", inSection("a = 1")},
		"section folds as in gcfg": {"[Bloc\u212astorage]\na = 1\n", inSection("a = 1")},
		"space in the header":      {"  [ \tBlockStorage ] ; comment\na = 1\n", inSection("a = 1")},
		"subsection":               {"[BlockStorage \"x\"]\na = 1\n", ""},
		"subsection and section": {
			"[BlockStorage \"x\"]\na = 1\n[BlockStorage]\na = 2\n",
			inSection("a = 2"),
		},
		"repeated section": {
			"[BlockStorage]\na = 1\n[Global]\na = 2\n[blockstorage]\na = 3\n",
			inSection("a = 1", "a = 3"),
		},
		"repeated setting, last wins": {"[BlockStorage]\na = 1\nA = 2\n", inSection("a = 1", "A = 2")},
		"empty section":               {"[BlockStorage]\n", ""},
		"no final newline":            {"[BlockStorage]\na = 1", inSection("a = 1")},
		"carriage returns": {
			"[BlockStorage]\r\na = 1 \r\nb\r\nc = \\\r\nd\r\n",
			inSection("a = 1", "b", "c = \\\nd"),
		},
		"byte order mark": {"\ufeff[BlockStorage]\na = 1\n", inSection("a = 1")},
		"spaces and tabs": {"[BlockStorage]\n\t a\t=\t  1 2\t3  \n", inSection("a = 1 2\t3")},
		"without a value": {"[BlockStorage]\na\nb ; comment\nc # comment", inSection("a", "b", "c")},
		"empty value": {
			"[BlockStorage]\na =\nb = ; comment\nc = \"\"\n",
			inSection("a =", "b =", "c = \"\""),
		},
		"comment after value": {
			"[BlockStorage]\na = 1 ; x\nb = 2# x\nc = 3;x",
			inSection("a = 1", "b = 2", "c = 3"),
		},
		"quoted": {
			"[BlockStorage]\na = \" ; # \\\\ \\\" \\n \\t = \" ; x\n",
			inSection("a = \" ; # \\\\ \\\" \\n \\t = \""),
		},
		"quoted in part": {
			"[BlockStorage]\na = x\" y \"z \" \"\n",
			inSection("a = x\" y \"z \" \""),
		},
		"escaped quotation mark": {"[BlockStorage]\na = \\\"x\\\"\n", inSection("a = \\\"x\\\"")},
		"continued line": {
			"[BlockStorage]\na = 1 \\\n  2 \\\n\"3\" ; x\nb = 4",
			inSection("a = 1 \\\n  2 \\\n\"3\"", "b = 4"),
		},
		"continued into nothing": {"[BlockStorage]\na = 1\\\n", inSection("a = 1\\\n")},
		"value like a section": {
			"[BlockStorage]\na = [Global]\nb = use-clouds = false\n",
			inSection("a = [Global]", "b = use-clouds = false"),
		},
		"names beyond ASCII": {"[BlockStorage]\nключ9 = значение\n", inSection("ключ9 = значение")},
	}
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

func TestCloudConfContainsSettingsOfAdministrator(t *testing.T) {
	t.Parallel()
	for name, test := range userTexts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			user := []byte(test.user)
			for range 3 {
				got, err := cinder.CloudConf(user, options())
				assert.NilError(t, err)
				assert.Assert(t, is.DeepEqual(globalText+test.want, string(got)), "cloud.conf")
			}
			assert.Check(t, string(user) == test.user, "the user's text was changed")
			checkRoundTrip(t, user)
		})
	}
}

// TestGeneratedCloudConfIsValidInput checks that a generated cloud.conf is valid input, with the
// same output.
func TestGeneratedCloudConfIsValidInput(t *testing.T) {
	t.Parallel()
	for name, test := range userTexts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first, err := cinder.CloudConf([]byte(test.user), options())
			assert.NilError(t, err)
			second, err := cinder.CloudConf(first, options())
			if err != nil || !bytes.Equal(first, second) {
				t.Fatalf("error %v, difference %s", err, cmp.Diff(string(first), string(second)))
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
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf, err := cinder.CloudConf([]byte(inTree), o)
			assert.NilError(t, err)
			want := map[string]globalConfig{"": {
				UseClouds: true, CloudsFile: o.CloudsFile, Cloud: o.Cloud, CAFile: o.CAFile,
			}}
			assert.Check(t, is.DeepEqual(want, readGlobal(t, conf)), "[Global] as the driver reads it")
			assert.Check(t, (o.CAFile != "") == strings.Contains(string(conf), "ca-file"),
				"ca-file with CA %q:\n%s", o.CAFile, conf)
			for _, stranger := range []string{
				secret, "secret-name", "region", "Metadata", "LoadBalancer", "trust-device-path",
			} {
				assert.Check(t, !strings.Contains(string(conf), stranger),
					"cloud.conf has %q:\n%s", stranger, conf)
			}
		})
	}
}

func TestOptionsThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	for _, cloud := range []string{"a\rb", "a\x00b", "a\xffb"} {
		conf, err := cinder.CloudConf(nil, cinder.Options{CloudsFile: cloudsFile, Cloud: cloud})
		var fault *cinder.SyntaxError
		if conf != nil || err == nil || errors.As(err, &fault) {
			t.Errorf("cloud %q: got %q and error %v, want an error that does not blame the user's text",
				cloud, conf, err)
		}
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

func brokenTexts() map[string]struct {
	user    string
	line    int
	problem string
} {
	return map[string]struct {
		user    string
		line    int
		problem string
	}{
		"header without end":        {"[Global\npassword = " + secret, 1, faultSection},
		"header without name":       {"[]\n", 1, faultSection},
		"header of a string":        {"[\"" + secret + "\"]", 1, faultSection},
		"header of two words":       {"[Block Storage]\n", 1, faultSection},
		"empty subsection":          {"\n[a \"\"]\n", 2, faultSection},
		"dotted subsection":         {"[a." + secret + "]\n", 1, faultCharacter},
		"setting behind the header": {"[Global] password = " + secret, 1, faultTrailing},
		"open quotation": {
			"[BlockStorage]\npassword = \"" + secret + "\nregion = x\n",
			2, faultQuotes,
		},
		"open quotation at the end": {"[BlockStorage]\n\na = \"" + secret, 3, faultQuotes},
		"open subsection":           {"[BlockStorage \"" + secret + "\n", 1, faultQuotes},
		"backslash": {
			"[BlockStorage]\na = b\npassword = " + secret + "\\" + secret,
			3, faultBackslash,
		},
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
		"many lines": {
			strings.Repeat("[Global]\r\n", 999) + "[" + secret,
			1000, faultSection,
		},
		"no switch": {
			"[BlockStorage]\na = 1\nrescan-on-resize = " + secret,
			3, faultValue,
		},
		"no switch, in case": {"[blockstorage]\nRESCAN-on-resize = " + secret, 2, faultValue},
		"no switch, then one": {"[BlockStorage]\nignore-volume-az = " + secret +
			"\nignore-volume-az = true", 2, faultValue},
		"empty switch":         {"[BlockStorage]\nignore-volume-microversion =", 2, faultValue},
		"no number":            {"[BlockStorage]\n\nnode-volume-attach-limit = " + secret, 3, faultValue},
		"number without value": {"[BlockStorage]\nnode-volume-attach-limit", 2, faultValue},
		"number too large": {
			"[BlockStorage]\nnode-volume-attach-limit = 9223372036854775808",
			2, faultValue,
		},
		"value on several lines": {
			"[BlockStorage]\n\n\nnode-volume-attach-limit = \\\n" + secret,
			4, faultValue,
		},
		"after a byte order mark": {"\ufeff[BlockStorage]\na = \"" + secret, 2, faultQuotes},
	}
}

// TestTextsOfEarlierOperatorsAreCorrected: they read the text with an ini parser.
func TestTextsOfEarlierOperatorsAreCorrected(t *testing.T) {
	t.Parallel()
	const on = "[BlockStorage]\nrescan-on-resize = on\n"
	settings := inSection("rescan-on-resize = on")
	for name, test := range map[string]struct{ user, want string }{
		"colon for =":       {"[BlockStorage]\nrescan-on-resize : on ; x\n", settings},
		"backticks":         {"[BlockStorage]\nrescan-on-resize = `on` # x\n", settings},
		"colon, backticks":  {"\ufeff[blockstorage]\r\nrescan-on-resize:`on`\r\n", settings},
		"no section":        {"password = \"" + secret + "\n" + on, settings},
		"another section":   {"[Global]\nsecret_name: \"" + secret + "\n\x00 \\d\n" + on, settings},
		"a section after":   {on + "[Global]\n9 = " + secret + "\n", settings},
		"continued header":  {"[Global]\na_b = c \\\n" + on, ""},
		"continued setting": {"x\n[BlockStorage]\na = \\\nb: c\n", inSection("a = \\\nb: c")},
		"not a cloud.conf":  {"{\"password\": \"" + secret + "\"}", ""},
		"clouds.yaml":       {"clouds:\n  openstack:\n    password: " + secret, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := cinder.CloudConf([]byte(test.user), options())
			assert.NilError(t, err)
			assert.Check(t, is.DeepEqual(globalText+test.want, string(got)), "cloud.conf")
			checkRoundTrip(t, []byte(test.user))
		})
	}
}

func TestBrokenCloudConf(t *testing.T) {
	t.Parallel()
	for name, test := range brokenTexts() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			conf, err := cinder.CloudConf([]byte(test.user), options())
			var fault *cinder.SyntaxError
			if conf != nil || !errors.As(err, &fault) {
				t.Fatalf("got %q and error %v, want a *SyntaxError", conf, err)
			}
			want := cinder.SyntaxError{Line: test.line, Problem: test.problem}
			assert.Check(t, is.DeepEqual(want, *fault), "error")
			assert.Check(t, !strings.Contains(err.Error(), secret), "error holds a secret: %v", err)
			checkRoundTrip(t, []byte(test.user))
		})
	}
}

// TestLargeCloudConfIsReadInTime bounds the time for 1 MiB, the maximum size of a ConfigMap.
func TestLargeCloudConfIsReadInTime(t *testing.T) {
	t.Parallel()
	checkRoundTrip(t, []byte("[BlockStorage]\n"+strings.Repeat("a = 12\n", 1<<20/7)))
}
