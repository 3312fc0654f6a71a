package manila

import (
	"context"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/version"
)

// checkPlugin returns an error if the plugin is too old for a fence. Plugins before v1.35 mount a
// share only if it has the access rule whose ID is in the PersistentVolume, and a fence grants
// rules with other IDs. The version of the plugin follows @, as in 0.9.0@v1.36.0. Builds of
// OpenShift contain no version: the plugin belongs to the same release as the operator.
func (c *Controller) checkPlugin(ctx context.Context) error {
	vendorVersion, err := c.config.PluginVersion(ctx)
	if err != nil {
		return status.Errorf(codes.Unavailable, "reading the version of manila-csi-plugin: %.512v", err)
	}
	_, text, _ := strings.Cut(vendorVersion, "@")
	found, err := version.ParseGeneric(text)
	needed := version.MajorMinor(1, 35)
	if err == nil && found.LessThan(needed) {
		return status.Errorf(codes.FailedPrecondition, "manila-csi-plugin has the version v%s, and a "+
			"fence needs v%s or later: after a fence, earlier versions cannot mount the shares on any "+
			"node. No share is changed. Update the plugin", found, needed)
	}
	return nil
}
