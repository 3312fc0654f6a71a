package manila

import (
	"context"
	"errors"
	"testing"

	"google.golang.org/grpc/codes"
)

// reports returns what a plugin reports.
func reports(vendorVersion string, err error) func(context.Context) (string, error) {
	return func(context.Context) (string, error) { return vendorVersion, err }
}

func TestPluginThatNeedsTheIDsOfAccessRulesRefusesAFence(t *testing.T) {
	t.Parallel()
	for version, accepted := range map[string]bool{
		"0.9.0@v1.34.1": false, "0.9.0@v1.34.99-3-g1a2b3c4": false, "0.9.0@1.20.0": false,
		"0.9.0@v1.35.0": true, "0.9.0@v1.35.0-rc.1": true, "0.9.0@v1.36.0": true, "1.0.0@v2.0.0": true,
		"0.9.0@": true, "0.9.0": true, "": true, "0.9.0@1a2b3c4": true, "0.9.0@latest": true,
	} {
		t.Run(version, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t)
			share := f.share(cluster, "rw 0.0.0.0/0")
			c := f.controller()
			c.config.PluginVersion = reports(version, nil)
			f.cloud.ResetLog()
			err := f.fence(c, fenced)
			if accepted {
				f.must(err)
				f.expectAccess(share, "", "rw", "rw")
			} else {
				f.refused(err, codes.FailedPrecondition, "a fence needs v1.35 or later")
				f.expectNoChange()
				f.must(f.fence(f.controller(), fenced))
			}
			f.must(f.unfence(c, fenced))
			f.expectRules(share, "rw 0.0.0.0/0")
		})
	}
}

func TestErrorOfAnOldPluginNamesItsVersion(t *testing.T) {
	t.Parallel()
	f := &fixture{T: t}
	c := Controller{config: Config{PluginVersion: reports("0.9.0@v1.34.1\x1b[31m", nil)}}
	f.refused(c.checkPlugin(t.Context()), codes.FailedPrecondition,
		"manila-csi-plugin has the version v1.34.1, and")
}

func TestFenceNeedsAnAnswerOfThePlugin(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	share := f.share(cluster, "rw 0.0.0.0/0")
	c := f.controller()
	c.config.PluginVersion = reports("", errors.New("no such file"))
	f.refused(f.fence(c, fenced), codes.Unavailable, "reading the version of manila-csi-plugin")
	f.expectRules(share, "rw 0.0.0.0/0")
	f.must(f.unfence(c, fenced))
}
