package manila

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/apimachinery/pkg/util/version"

	"github.com/openstack-csi/csi-operator/pkg/openstack/shares"
)

// Volume is a PersistentVolume of the driver. Nothing has checked its attributes.
type Volume struct {
	Name string
	// ShareID and ShareName are the attributes shareID and shareName.
	ShareID, ShareName string
	// Bound means that a claim uses the PersistentVolume, so that pods may use its share.
	Bound bool
}

// validShareID matches the IDs of Manila's shares.
var validShareID = regexp.MustCompile(`^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$`)

// used returns the shares of the PersistentVolumes of the cluster that are not in a list: somebody
// created them without the plugin, or they lost the ID of the cluster. The error is about the first
// PersistentVolume whose share a fence cannot include. The list contains the others anyway.
func (c *Controller) used(ctx context.Context, cloud Shares, listed []shares.Share,
) (found []shares.Share, err error) {
	volumes, err := c.config.Volumes(ctx)
	if err != nil {
		return nil, err
	}
	bound := slices.DeleteFunc(slices.Clone(volumes), func(v Volume) bool { return !v.Bound })
	known := map[string]bool{}
	for _, share := range listed {
		known[share.ID] = true
	}
	var needed []Volume
	for _, volume := range slices.Concat(bound, volumes) { // each share once, as the strictest says
		if volume.ShareName != "" || !known[volume.ShareID] {
			known[volume.ShareID] = true
			needed = append(needed, volume)
		}
	}
	used, errs := make([]shares.Share, len(needed)), make([]error, len(needed))
	each(needed, func(i int, volume Volume) { used[i], errs[i] = c.shareOf(ctx, cloud, volume) })
	for i, share := range used {
		switch {
		case errs[i] == nil && share.ID != "":
			found = append(found, share)
		case err == nil:
			err = errs[i]
		}
	}
	return found, err
}

// shareOf returns the share of a PersistentVolume, or an error if a fence cannot include it. The
// share is empty if it is gone, and no claim uses the PersistentVolume.
func (c *Controller) shareOf(ctx context.Context, cloud Shares, volume Volume,
) (shares.Share, error) {
	if volume.ShareName != "" || !validShareID.MatchString(volume.ShareID) {
		return shares.Share{}, status.Errorf(codes.FailedPrecondition, "PersistentVolume %s has the "+
			"attribute shareName, or no valid attribute shareID, so a fence does not find its share. No "+
			"share is changed. Create the PersistentVolume again, with the ID of its share", volume.Name)
	}
	share, exists, err := cloud.Find(ctx, volume.ShareID)
	switch {
	case err != nil:
		return share, cloudError(ctx, err)
	case !exists && !volume.Bound:
		return shares.Share{}, nil
	case !exists:
		return share, status.Errorf(codes.FailedPrecondition, "the project does not contain share %s of "+
			"PersistentVolume %s, so a fence cannot include the share. No share is changed. If the share "+
			"was deleted, delete the PersistentVolume", volume.ShareID, volume.Name)
	}
	for _, key := range []string{shares.ClusterKey, shares.FenceKey} {
		owner := share.Metadata[key]
		if owner != "" && owner != sharedCluster && owner != c.config.Cluster {
			return share, status.Errorf(codes.FailedPrecondition, "share %s of PersistentVolume %s belongs "+
				"to another cluster, because its metadata %s are %.64q. No share is changed", share.ID,
				volume.Name, key, owner)
		}
	}
	return share, nil
}

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
