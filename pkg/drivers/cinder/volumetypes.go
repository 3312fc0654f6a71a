package cinder

import (
	"context"
	"fmt"
	"sync"

	storagev1 "k8s.io/api/storage/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/choice/classes"
	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/storageclass"
)

// typeLister is the part of openstack.Client that lists volume types.
type typeLister interface {
	VolumeTypes(context.Context) ([]openstack.Type, error)
}

// volumeTypes reconciles a StorageClass for each volume type that the administrator selects.
type volumeTypes struct {
	*storageclass.Controller
	// connect returns the lister with the accepted login.
	connect func(context.Context) (typeLister, error)
	choices *plugin.Choices
	// changed is notified if what ignored returns may have changed.
	changed cluster.Signal

	mu sync.Mutex
	// err is why the last list failed.
	err    error
	faults []string
}

func newVolumeTypes(
	s plugin.Dependencies, choices *plugin.Choices, credentials *credential.Watcher,
) *volumeTypes {
	v := &volumeTypes{choices: choices}
	v.connect = func(ctx context.Context) (typeLister, error) { return credentials.Client(ctx) }
	names := classes.NamesOf(choice.Cinder, s.Driver)
	v.Controller = storageclass.New(s.Cluster, s.Events, choices, names, v)
	return v
}

// Required returns the StorageClass of a volume type.
func (v *volumeTypes) Required(
	w classes.Class, _ *storagev1.StorageClass,
) *storagev1.StorageClass {
	return v.OfVolumes(w)
}

// Created returns whether the administrator selects the type of the class. Nothing else tells a
// class of the operator from one of the administrator.
func (v *volumeTypes) Created(class *storagev1.StorageClass) bool {
	config, err := v.choices.Current()
	return err == nil && config.Selects(choice.Cinder, class.Parameters[classes.TypeParameter])
}

// after returns the request of the cloud probe, which lists the volume types after the zones.
// Without a choice it sends no request for them. The zones do not depend on its success, and a
// policy may allow only the volume types.
func (v *volumeTypes) after(zones func(context.Context) error) cloudprobe.Request[struct{}] {
	return func(ctx context.Context) (found struct{}, _ cloudprobe.Availability, _ error) {
		err := zones(ctx)
		if err == nil || openstack.ReasonOf(err) == openstack.NotOffered {
			v.list(ctx)
		}
		return found, cloudprobe.Availability{Available: err == nil}, err
	}
}

func (v *volumeTypes) list(ctx context.Context) {
	config, err := v.choices.Current()
	if err != nil || !config.NeedsVolumeTypes() {
		return
	}
	var types []openstack.Type
	cloud, err := v.connect(ctx)
	if err == nil {
		types, err = cloud.VolumeTypes(ctx)
	}
	v.mu.Lock()
	changed := fmt.Sprint(err) != fmt.Sprint(v.err)
	v.err = err
	v.mu.Unlock()
	if err == nil {
		v.SetTypes(types)
	}
	if changed {
		v.changed.Notify()
	}
}

// Report keeps the faults for the condition about the choices.
func (v *volumeTypes) Report(_ context.Context, faults []string) error {
	v.mu.Lock()
	v.faults = faults
	v.mu.Unlock()
	v.changed.Notify()
	return nil
}

// ignored returns the choices about volume types that have no effect, for the condition.
func (v *volumeTypes) ignored() []string {
	config, err := v.choices.Current()
	if err != nil || !config.NeedsVolumeTypes() {
		return nil
	}
	v.mu.Lock()
	err, faults := v.err, v.faults
	v.mu.Unlock()
	if err != nil {
		return []string{fmt.Sprintf("%s: new volume types get no StorageClass, because they cannot be "+
			"listed: %v", v.choices.Place(), err)}
	}
	return append(v.Unused(), faults...)
}
