package cinder

// usage is the usage of a file system, in bytes.
type usage struct {
	used, free uint64
	// written is what was written to the file system since it was made, on all nodes. It is valid if
	// counts is true.
	written uint64
	counts  bool
}

// freed returns an estimate of how much space the cloud frees in an operation, in bytes, because a
// node cannot read how much space a volume takes in the cloud. It remembers the usage after the
// operation. The estimate is the smallest of these numbers:
//   - what the file system reports as discarded. ext4 leaves out groups of blocks that were not
//     used since they were discarded. XFS of recent kernels reports all its free space.
//   - the free space.
//   - on ext4, what the volume can have taken at most, minus what it uses. A volume takes at most
//     what was written to it in its lifetime. After an operation it takes what it uses, and later
//     at most what was written since.
func (n *Node) freed(volumeID string, after usage, discarded uint64) uint64 {
	estimate := min(discarded, after.free)
	if !after.counts {
		return estimate
	}
	taken := after.written
	previous, _ := n.usages.Get(volumeID)
	if last, found := previous.(usage); found && last.written <= after.written {
		taken = last.used + after.written - last.written
	}
	n.usages.Add(volumeID, after)
	return min(estimate, max(taken, after.used)-after.used)
}
