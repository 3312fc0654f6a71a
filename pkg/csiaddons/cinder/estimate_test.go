package cinder

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
)

func TestFreedSpaceIsTheSmallestBound(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		before, after   usage // before is the usage after an earlier operation
		discarded, want uint64
	}{
		"another file system":  {usage{}, usage{used: 10, free: 90}, 50, 50},
		"more than is free":    {usage{}, usage{used: 10, free: 90}, 1000, 90},
		"first operation":      {usage{}, usage{10, 90, 40, true}, 90, 30},
		"mostly rewritten":     {usage{}, usage{10, 90, 4000, true}, 90, 90},
		"count is incomplete":  {usage{}, usage{10, 90, 5, true}, 90, 0},
		"later operation":      {usage{10, 90, 40, true}, usage{10, 90, 60, true}, 90, 20},
		"grown since":          {usage{10, 90, 40, true}, usage{30, 70, 60, true}, 70, 0},
		"files deleted since":  {usage{50, 50, 60, true}, usage{10, 90, 61, true}, 90, 41},
		"file system made new": {usage{50, 50, 60, true}, usage{10, 90, 20, true}, 90, 10},
	} {
		node := NewNode(Folders{})
		if test.before.counts {
			node.freed(volumeID, test.before, 0)
		}
		assert.Check(t, is.Equal(node.freed(volumeID, test.after, test.discarded), test.want),
			"%s: the estimate", name)
	}
}
