package openstack

import (
	"unicode/utf8"

	"github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
)

const (
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
	ID, Status, Protocol string
	Metadata             map[string]string
}

// shareOf checks and converts a share.
func shareOf(found shares.Share) (Share, error) {
	valid := isID(found.ID) && isShort(found.Status) && isShort(found.ShareProto)
	for key, value := range found.Metadata {
		valid = valid && isShort(key) && isShort(value)
	}
	if !valid {
		return Share{}, errNotOpenStack
	}
	return Share{
		ID: found.ID, Status: found.Status, Protocol: found.ShareProto, Metadata: found.Metadata,
	}, nil
}

// isShort returns whether a text has the length of those in Manila's database.
func isShort(text string) bool { return utf8.RuneCountInString(text) <= MaxMetadataValue }

// checkedShares returns the shares that match. A share that was seen has moved to another page.
func checkedShares(
	part []shares.Share, seen map[string]bool, matches func(shares.Share) bool,
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
		if matches(one) {
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
