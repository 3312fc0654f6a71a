package shares

import (
	"context"
	"unicode/utf8"

	"github.com/gophercloud/gophercloud/v2"
	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"

	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

const (
	// ClusterKey is the key in the metadata of a share with which manila-csi-plugin names the cluster
	// (its flag --cluster-id), whatever the name of its driver. Never write it: when OpenShift's
	// installer destroys a cluster, it deletes all shares with the ID of the cluster.
	ClusterKey = "manila.csi.openstack.org/cluster"
	// FenceKey contains the ID of the cluster while a share has the record of a fence. So the end of
	// a fence finds the share without ClusterKey, and without its PersistentVolume. Like all keys of
	// fences it contains no slash, because it is part of URLs.
	FenceKey = "csi-addons-fenced-by"
	// MaxMetadataValue is the maximum length of a value in the metadata of a share. Manila counts
	// characters; values that are set here must not have more bytes.
	MaxMetadataValue = 1023
	// maxMetadata limits the metadata of all shares of a list, in bytes of memory.
	maxMetadata = 32 << 20
	// metadataEntry is the memory of an entry of metadata without its text, in bytes.
	metadataEntry = 64
)

// Share is a share of Manila. Its fields are from the cloud: the ID is safe in URLs and messages,
// other fields contain at most 1023 arbitrary characters.
type Share struct {
	ID, Name, Status, Protocol string
	// Size is in GiB.
	Size int
	// RulesStatus is the state of all access rules together: active, syncing or error. Manila counts
	// only instances of the share that are available.
	RulesStatus string
	// Network is the ID of the share network, "" without one.
	Network  string
	Metadata map[string]string
}

// foundShare is a share in an answer of Manila. The type of gophercloud lacks a field.
type foundShare struct {
	ID          string            `json:"id"`
	Name        string            `json:"name"`
	Status      string            `json:"status"`
	Protocol    string            `json:"share_proto"`
	Size        int               `json:"size"`
	RulesStatus string            `json:"access_rules_status"`
	Network     string            `json:"share_network_id"`
	Metadata    map[string]string `json:"metadata"`
}

func shareOf(found foundShare) (Share, error) {
	valid := openstack.IsID(found.ID) && isShort(found.Name) && isShort(found.Status) &&
		isShort(found.Protocol) && isShort(found.RulesStatus) && isShort(found.Network)
	for key, value := range found.Metadata {
		valid = valid && isShort(key) && isShort(value)
	}
	if !valid {
		return Share{}, openstack.ErrNotOpenStack
	}
	return Share(found), nil
}

// isShort returns whether a text has the length of those in Manila's database.
func isShort(text string) bool { return utf8.RuneCountInString(text) <= MaxMetadataValue }

// checkedShares returns the shares that match. A share that was seen has moved to another page.
func checkedShares(
	part []foundShare, seen map[string]bool, matches func(Share) bool,
) ([]Share, error) {
	var matching []Share
	for _, one := range part {
		share, err := shareOf(one)
		switch {
		case err != nil:
			return nil, err
		case seen[share.ID]:
			return nil, errUnstable
		}
		seen[share.ID] = true
		if matches(share) {
			matching = append(matching, share)
		}
	}
	return matching, nil
}

// metadataSize returns about how much memory the metadata of shares take, in bytes.
func metadataSize(all []Share) int {
	size := 0
	for _, share := range all {
		for key, value := range share.Metadata {
			size += metadataEntry + len(key) + len(value)
		}
	}
	return size
}

// SetMetadata sets entries of the metadata of a share, and keeps the others.
func (r *Requests) SetMetadata(
	ctx context.Context, shareID string, entries map[string]string,
) error {
	return r.call(ctx, func(client *gophercloud.ServiceClient) error {
		return shares.SetMetadata(ctx, client, shareID, shares.SetMetadataOpts{Metadata: entries}).Err
	})
}

// DeleteMetadata removes an entry from the metadata of a share. It returns no error if the share or
// the entry does not exist.
func (r *Requests) DeleteMetadata(ctx context.Context, shareID, key string) error {
	return ignoreNotFound(r.call(ctx, func(client *gophercloud.ServiceClient) error {
		return shares.DeleteMetadatum(ctx, client, shareID, key).Err
	}))
}

func ignoreNotFound(err error) error {
	if openstack.ReasonOf(err) == openstack.NotFound {
		return nil
	}
	return err
}
