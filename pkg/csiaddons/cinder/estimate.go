package cinder

import "sync"

// usage is the usage of a file system, in bytes.
type usage struct {
	used, free uint64
	// written is what was written to the file system since it was made, on all nodes. It is valid if
	// counts is true.
	written uint64
	counts  bool
}

// maxVolumes limits the volumes that a node remembers: more than a node can attach.
const maxVolumes = 1024

// estimates are about how much space the cloud frees, because a node cannot read how much space a
// volume takes in the cloud. An estimate is the smallest of these numbers:
//   - what the file system reports as discarded. ext4 leaves out groups of blocks that were not
//     used since they were discarded. XFS of recent kernels reports all its free space.
//   - the free space.
//   - on ext4, what the volume can have taken at most, minus what it uses. A volume takes at most
//     what was written to it in its lifetime. After an operation it takes what it uses, and later
//     at most what was written since.
//
// The zero value is ready to use.
type estimates struct {
	mu sync.Mutex
	// last are the usages after the last operation, by volume ID.
	last map[string]usage
}

// freed returns the estimate for an operation, in bytes, and remembers the usage after it.
func (e *estimates) freed(volumeID string, after usage, discarded uint64) uint64 {
	estimate := min(discarded, after.free)
	if !after.counts {
		return estimate
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	taken := after.written
	if last, found := e.last[volumeID]; found && last.written <= after.written {
		taken = last.used + after.written - last.written
	}
	if len(e.last) >= maxVolumes || e.last == nil {
		e.last = map[string]usage{}
	}
	e.last[volumeID] = after
	return min(estimate, max(taken, after.used)-after.used)
}
