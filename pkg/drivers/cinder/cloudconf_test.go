package cinder_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"gopkg.in/gcfg.v1"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"

	"github.com/openstack-csi/csi-operator/pkg/drivers/cinder"
	"github.com/openstack-csi/csi-operator/test/budget"
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
	// Earlier operators read the text with an ini parser.
	const on = "[BlockStorage]\nrescan-on-resize = on\n"
	settings := inSection("rescan-on-resize = on")
	texts := map[string]struct{ user, want string }{
		"blank lines and comments": {"\n ; " + secret + "\n\t# " + secret + "\n\n", ""},
		"in-tree leftovers": {inTree, inSection("ignore-volume-az = yes") +
			"\n[Metadata]\nsearch-order = configDrive\n"},
		"an unknown search order": {"[Metadata]\nsearch-order = dhcp\nrequest-timeout = x\n", ""},
		"other sections' settings": {"[Global]\nca-file = /x\n[BlockStorage]\na = 1\n[Metadata]\n" +
			"a = 2\n[Route]\na", inSection("a = 1")},
		"sections of similar names": {"[BlockStorages]\na = 1\n[Block-Storage]\na = 2\n" +
			"[LoadBalancer \"BlockStorage\"]\na = 3\n", ""},
		"section folds as in gcfg": {"[Bloc\u212astorage]\na = 1\n", inSection("a = 1")},
		"space in the header":      {"  [ \tBlockStorage ] ; comment\na = 1\n", inSection("a = 1")},
		"subsection, and repeated section": {"[BlockStorage \"x\"]\na = 0\n[BlockStorage]\na = 1\n" +
			"[Global]\na = 2\n[blockstorage]\na = 3\n", inSection("a = 1", "a = 3")},
		"carriage returns": {
			"[BlockStorage]\r\na = 1 \r\nb\r\nc = \\\r\nd\r\n", inSection("a = 1", "b", "c = \\\nd"),
		},
		"byte order mark":   {"\ufeff[BlockStorage]\na = 1\n", inSection("a = 1")},
		"colon for =":       {"[BlockStorage]\nrescan-on-resize : on ; x\n", settings},
		"backticks":         {"[BlockStorage]\nrescan-on-resize = `on` # x\n", settings},
		"colon, backticks":  {"\ufeff[blockstorage]\r\nrescan-on-resize:`on`\r\n", settings},
		"no section":        {"password = \"" + secret + "\n" + on, settings},
		"another section":   {"[Global]\nsecret_name: \"" + secret + "\n\x00 \\d\n" + on, settings},
		"a section after":   {on + "[Global]\n9 = " + secret + "\n", settings},
		"continued header":  {"[Global]\na_b = c \\\n" + on, ""},
		"continued setting": {"x\n[BlockStorage]\na = \\\nb: c\n", inSection("a = \\\nb: c")},
		"not a cloud.conf":  {"{\"password\": \"" + secret + "\"}", ""},
	}
	for lines, want := range map[string]string{
		"trust-device-path\n": "",
		"TRUST-Device-Path = x\ntru\u017ft-device-path\ntrust-device-paths = 1": "trust-device-paths = 1",
		"a = 1\nA = 2\n":                          "a = 1\nA = 2",
		"\t a\t=\t  1 2\t3  \n":                   "a = 1 2\t3",
		"a\nb ; comment\nc # comment":             "a\nb\nc",
		"a =\nb = ; comment\nc = \"\"\n":          "a =\nb =\nc = \"\"",
		"a = 1 ; x\nb = 2# x\nc = 3;x":            "a = 1\nb = 2\nc = 3",
		"a = \" ; # \\\\ \\\" \\n \\t = \" ; x\n": "a = \" ; # \\\\ \\\" \\n \\t = \"",
		"a = x\" y \"z \" \"\nb = \\\"x\\\"\n":    "a = x\" y \"z \" \"\nb = \\\"x\\\"",
		"a = 1 \\\n  2 \\\n\"3\" ; x\nb":          "a = 1 \\\n  2 \\\n\"3\"\nb",
		"a = 1\\\n":                               "a = 1\\\n",
		"ключ9 = [Global]\nb = a = c\n":           "ключ9 = [Global]\nb = a = c",
	} {
		stays := ""
		if want != "" {
			stays = inSection(want)
		}
		texts[lines] = struct{ user, want string }{"[BlockStorage]\n" + lines, stays}
	}
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
		"with CA":        {CloudsFile: cloudsFile, Cloud: "production", CAFile: caFile},
		"entry to quote": {CloudsFile: cloudsFile, Cloud: ` my "cloud"; \n #1 `},
		"entry of lines": {CloudsFile: cloudsFile, Cloud: "a\n[Global]\n\tuse-clouds = false\\"},
		"paths to quote": {CloudsFile: "/a b/c;d", Cloud: "x", CAFile: "/e #f"},
	} {
		conf, err := cinder.CloudConf([]byte(inTree), o)
		assert.NilError(t, err, name)
		want := globalConfig{UseClouds: true, CloudsFile: o.CloudsFile, Cloud: o.Cloud, CAFile: o.CAFile}
		assert.Check(t, is.DeepEqual(want, readGlobal(t, conf)), name)
	}
}

const (
	faultQuotes = "a quotation mark is not closed on its line"
	faultEscape = `between quotation marks a backslash is valid only in \\, \", \n and \t, ` +
		`and in the name of a section only in \\ and \"`
	faultBackslash = `a backslash is valid only before a quotation mark or at the end of a line. ` +
		`Write it as "\\", with the quotation marks`
	supported = "It supports node-volume-attach-limit, rescan-on-resize, ignore-volume-az, " +
		"ignore-volume-microversion. Remove it"
	faultEncoding  = "the text is not UTF-8 without NUL"
	faultSection   = `a section is not written as [name] or [name "subsection"]`
	faultName      = "a name is followed by something other than = or the end of the line"
	faultTrailing  = "only a comment may follow the end of a section's header or of a value"
	faultCharacter = "a character is not allowed here. " +
		"Settings are written as name = value, with names of letters, digits and -; comments begin " +
		"with ; or #"
	faultNumber = "node-volume-attach-limit must be a whole number from 1 to 256, in digits, and is "
	faultSwitch = " must be true or false, and is "
)

// broken is a text that the driver cannot read.
type broken struct {
	user    string
	line    int
	problem string
}

func brokenTexts() map[string]broken {
	return map[string]broken{
		"header without end":        {"[Global\npassword = " + secret, 1, faultSection},
		"header of a string":        {"[\"" + secret + "\"]", 1, faultSection},
		"header of two words":       {"[Block Storage]\n", 1, faultSection},
		"empty subsection":          {"\n[a \"\"]\n", 2, faultSection},
		"setting behind the header": {"[Global] password = " + secret, 1, faultTrailing},
		"open quotation":            {"[BlockStorage]\n\na = \"" + secret + "\nb = x", 3, faultQuotes},
		"open subsection":           {"[BlockStorage \"" + secret + "\n", 1, faultQuotes},
		"after a byte order mark":   {"\ufeff[BlockStorage]\na = \"" + secret, 2, faultQuotes},
		"backslash":                 {"[BlockStorage]\na = \\\nb\\" + secret, 2, faultBackslash},
		"unknown escape":            {"[BlockStorage]\npassword = \"" + secret + "\\d\"", 2, faultEscape},
		"unknown escape in name":    {"[a \"\\n\"]", 1, faultEscape},
		"underscore in a name": {
			"[BlockStorage]\nsecret_name = " + secret, 2, "the names of settings have - in place of _ and " +
				"spaces. " + supported,
		},
		"spaces in a name": {
			"[BlockStorage]\nnode volume attach limit = 20", 2, "the names of settings have - in place " +
				"of _ and spaces. Write node-volume-attach-limit",
		},
		"no name":                   {"[BlockStorage]\n= " + secret, 2, faultCharacter},
		"two words":                 {"[BlockStorage]\npassword " + secret, 2, faultName},
		"second line of a password": {"[BlockStorage]\npassword = x\n$" + secret, 3, faultCharacter},
		"NUL in a comment":          {"[BlockStorage]\n\n; " + secret + "\x00", 3, faultEncoding},
		"Latin-1":                   {"[BlockStorage]\npassword = \xfc" + secret, 2, faultEncoding},
		"many lines":                {strings.Repeat("[a]\r\n", 9) + "[" + secret, 10, faultSection},
		"no switch, in case": {
			"[blockstorage]\nRESCAN-on-resize = " + secret, 2, "rescan-on-resize" + faultSwitch + "a text",
		},
		"no switch, then one": {"[BlockStorage]\nignore-volume-az = " + secret +
			"\nignore-volume-az = true", 2, "ignore-volume-az" + faultSwitch + "a text"},
		"empty switch": {
			"[BlockStorage]\nignore-volume-microversion =", 2, "ignore-volume-microversion" + faultSwitch +
				"empty",
		},
		"no number": {
			"[BlockStorage]\n\nnode-volume-attach-limit = " + secret, 3, faultNumber + "a text",
		},
		"number too large": {
			"[BlockStorage]\n\n\nnode-volume-attach-limit = \\\n9223372036854775808", 4,
			faultNumber + "a text",
		},
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

func TestLargeCloudConfIsRefused(t *testing.T) {
	t.Parallel()
	_, err := cinder.CloudConf([]byte("[BlockStorage]\n"+strings.Repeat("a = 12\n", 5000)), options())
	assert.Error(t, err, "cannot be used because of line 1: the text is larger than 32 KiB")
}

// blockStorage is the section as the driver declares it.
type blockStorage struct {
	NodeVolumeAttachLimit    int64 `gcfg:"node-volume-attach-limit"`
	RescanOnResize           bool  `gcfg:"rescan-on-resize"`
	IgnoreVolumeAZ           bool  `gcfg:"ignore-volume-az"`
	IgnoreVolumeMicroversion bool  `gcfg:"ignore-volume-microversion"`
}

// globalConfig is a part of the driver's section [Global], which may exist once for each cloud.
type globalConfig struct {
	UseClouds  bool   `gcfg:"use-clouds"`
	CloudsFile string `gcfg:"clouds-file,omitempty"`
	Cloud      string `gcfg:"cloud,omitempty"`
	CAFile     string `gcfg:"ca-file"`
}

// allValues collects every value that gcfg reads for these names, in order. A name without a value
// empties the list.
type allValues struct {
	Limit    []string `gcfg:"node-volume-attach-limit"`
	Rescan   []string `gcfg:"rescan-on-resize"`
	IgnoreAZ []string `gcfg:"ignore-volume-az"`
	IgnoreMV []string `gcfg:"ignore-volume-microversion"`
	Key      []string `gcfg:"ключ9"`
	A, B, C  []string
	X, Y, Z  []string
	Password []string
}

func read(config any, text []byte) error {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	return gcfg.FatalOnly(gcfg.ReadInto(config, bytes.NewReader(text)))
}

// readGlobal expects one [Global], and returns it.
func readGlobal(t *testing.T, conf []byte) globalConfig {
	t.Helper()
	var config struct{ Global map[string]*globalConfig }
	assert.NilError(t, read(&config, conf))
	assert.Assert(t, len(config.Global) == 1 && config.Global[""] != nil, "%s", conf)
	return *config.Global[""]
}

// checkRoundTrip compares what gcfg reads from the user's text and from the generated one.
func checkRoundTrip(t *testing.T, user []byte) {
	t.Helper()
	var driver struct{ BlockStorage blockStorage }
	refused := read(&driver, user)
	conf, err := cinder.CloudConf(user, options())
	switch {
	case refused == nil && err != nil:
		t.Fatalf("the driver reads the text, CloudConf returns %v", err)
	case err != nil:
		checkFault(t, user, err)
		return
	case refused != nil: // as earlier operators, CloudConf corrects the text
		assert.NilError(t, read(&driver, conf), "%s", conf)
		return
	}
	var again struct{ BlockStorage blockStorage }
	var before, after struct{ BlockStorage allValues }
	for config, text := range map[any][]byte{&again: conf, &before: user, &after: conf} {
		assert.NilError(t, read(config, text), "%s", text)
	}
	assert.DeepEqual(t, driver, again)
	assert.DeepEqual(t, before, after)
	want := globalConfig{UseClouds: true, CloudsFile: cloudsFile, Cloud: "openstack"}
	assert.DeepEqual(t, want, readGlobal(t, conf))
}

// checkFault expects one of the known problems, which quote nothing of the text, and a line before
// which the text is valid.
func checkFault(t *testing.T, user []byte, err error) {
	t.Helper()
	var fault *cinder.SyntaxError
	assert.Assert(t, errors.As(err, &fault), "error %v, want a *SyntaxError", err)
	assert.Check(t, slices.ContainsFunc([]string{
		faultQuotes, faultEscape, faultBackslash, faultEncoding, faultSection, faultName, faultTrailing,
		faultCharacter, faultNumber, faultSwitch,
		"the names of settings have - in place of _ and spaces. ", "not a cloud.conf: ",
	}, func(known string) bool { return strings.Contains(fault.Problem, known) }),
		"%q is no known problem", fault.Problem)
	lines := bytes.SplitAfter(user, []byte("\n"))
	last := len(lines)
	assert.Assert(t, fault.Line >= 1 && fault.Line <= last, "line %d of %d", fault.Line, last)
	// The scanner reads one character ahead, so it reports NUL at the start of a line before an error
	// at the end of the previous line.
	if fault.Problem == faultEncoding {
		return
	}
	_, err = cinder.CloudConf(bytes.Join(lines[:fault.Line-1], nil), options())
	assert.NilError(t, err, "fault %v, but there is one before", fault)
}

func FuzzCloudConf(f *testing.F) {
	for _, test := range userTexts() {
		f.Add([]byte(test.user))
	}
	for _, test := range brokenTexts() {
		f.Add([]byte(test.user))
	}
	for _, part := range []string{
		"a#=1\n", "[a#]\n", "a#\n", "rescan-on-resize=true\n", "[BlockStorage]\n", "x=\"\n", "a=\\\n",
		"a#: b\n", "\x00", "[", ";\n", "rescan-on-resize=x\n", "\n", "a=`x`\n", "\"", "x =",
	} {
		for _, start := range []string{"", "[BlockStorage]\n"} {
			f.Add([]byte(budget.Repeated(start, part, 32<<10)))
		}
	}
	f.Fuzz(func(t *testing.T, user []byte) {
		budget.Check(t, func() { _, _ = cinder.CloudConf(user, options()) })
		checkRoundTrip(t, user)
	})
}
