package cinder_test

import (
	"bytes"
	"errors"
	"slices"
	"testing"

	"gopkg.in/gcfg.v1"
	"gotest.tools/v3/assert"

	"github.com/openstack-csi/csi-operator/pkg/drivers/cinder"
)

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

func readGlobal(t *testing.T, conf []byte) map[string]globalConfig {
	t.Helper()
	var config struct{ Global map[string]*globalConfig }
	assert.NilError(t, read(&config, conf))
	found := map[string]globalConfig{}
	for name, global := range config.Global {
		found[name] = *global
	}
	return found
}

// checkRoundTrip compares what gcfg reads from the user's text with what it reads from the
// generated one.
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
	want := map[string]globalConfig{"": {UseClouds: true, CloudsFile: cloudsFile, Cloud: "openstack"}}
	assert.DeepEqual(t, want, readGlobal(t, conf))
}

// checkFault expects one of the known problems, which quote nothing of the text, and a line before
// which the text is valid.
func checkFault(t *testing.T, user []byte, err error) {
	t.Helper()
	var fault *cinder.SyntaxError
	assert.Assert(t, errors.As(err, &fault) && slices.Contains(faults(), fault.Problem),
		"error %v, want a *SyntaxError with a known problem", err)
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
		if len(test.user) < 1000 {
			f.Add([]byte(test.user))
		}
	}
	f.Fuzz(func(t *testing.T, user []byte) { checkRoundTrip(t, user) })
}
