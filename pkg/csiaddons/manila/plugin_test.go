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
	for version, refused := range map[string]string{
		"0.9.0@v1.34.1": "v1.34.1", "0.9.0@v1.34.99-3-g1a2b3c4": "v1.34.99", "0.9.0@1.20.0": "v1.20.0",
		"0.9.0@v1.34.1\x1b[31m": "v1.34.1",
		"0.9.0@v1.35.0":         "", "0.9.0@v1.35.0-rc.1": "", "0.9.0@v1.36.0": "", "1.0.0@v2.0.0": "",
		"0.9.0@": "", "0.9.0": "", "": "", "0.9.0@1a2b3c4": "", "0.9.0@latest": "",
	} {
		f := &fixture{T: t}
		c := Controller{config: Config{PluginVersion: reports(version, nil)}}
		if err := c.checkPlugin(t.Context()); refused == "" {
			f.must(err)
		} else {
			f.refused(err, codes.FailedPrecondition, "manila-csi-plugin has the version "+refused+", and")
		}
	}
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
