package operator

import (
	"context"
	"fmt"
	"strings"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
)

// withClassNames returns sync with events that contain the names of the driver's
// VolumeSnapshotClasses. library-go's events contain only the kind.
func withClassNames(assets []bundle.Asset, sync factory.SyncFunc) (factory.SyncFunc, error) {
	var names []string
	for _, asset := range assets {
		object, err := metadata(asset)
		if err != nil {
			return nil, err
		}
		names = append(names, object.Name)
	}
	return func(ctx context.Context, syncCtx factory.SyncContext) error {
		return sync(ctx, classNaming{syncCtx, strings.Join(names, ", ")})
	}, nil
}

type classNaming struct {
	factory.SyncContext
	names string
}

func (c classNaming) Recorder() events.Recorder {
	return classNamer{c.SyncContext.Recorder(), c.names}
}

// classNamer replaces the API version in an event by the names.
type classNamer struct {
	events.Recorder
	names string
}

func (c classNamer) named(message string) string {
	const group = resourceapply.VolumeSnapshotClassGroup + "/"
	return strings.Replace(message, group+resourceapply.VolumeSnapshotClassVersion, group+c.names, 1)
}

func (c classNamer) Eventf(reason, format string, args ...any) {
	c.Event(reason, c.named(fmt.Sprintf(format, args...)))
}

func (c classNamer) Warningf(reason, format string, args ...any) {
	c.Warning(reason, c.named(fmt.Sprintf(format, args...)))
}
