package meaning

import (
	"cmp"
	_ "embed" // for parameters.txt
	"maps"
	"slices"
	"strings"

	"github.com/openstack-csi/csi-operator/pkg/position"
)

// parameters are those that drivers and sidecars read: driver ("*" for a sidecar), kind of the
// class, name, versions. `make universe` writes them.
//
//go:embed parameters.txt
var parameters string

// UnknownParameter is a parameter of a class that neither the driver nor a sidecar reads. Drivers
// ignore it without an error.
type UnknownParameter struct {
	Name string
	// Similar is the name that may be meant, "" if none is similar.
	Similar string
}

// UnknownParameters returns the unknown parameters of a StorageClass or VolumeSnapshotClass, sorted
// by name; none for a driver of others. The kind is that of the class.
func UnknownParameters(kind, driver string, set map[string]string) (unknown []UnknownParameter) {
	var known []string
	ours := false
	for line := range strings.Lines(parameters) {
		fields := strings.Split(line, "\t")
		own := strings.HasSuffix("."+driver, "."+fields[0]) // also with the protocol before it
		ours = ours || own
		if len(fields) == 4 && (own || fields[0] == "*") && fields[1] == kind {
			known = append(known, fields[2])
		}
	}
	for _, name := range slices.Sorted(maps.Keys(set)) {
		if ours && !slices.Contains(known, name) {
			plain := strings.NewReplacer("-", "", "_", "").Replace(name)
			similar := cmp.Or(position.Similar(known, name), position.Similar(known, plain))
			unknown = append(unknown, UnknownParameter{name, similar})
		}
	}
	return unknown
}
