package operator

import (
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/cloudprobe"
)

// cloudProbe returns the controller that polls OpenStack. If the driver waits for OpenStack, it
// also decides when the driver is needed.
func (d *driver) cloudProbe(string) (factory.Controller, error) {
	probe := d.components.Probe
	if probe == nil {
		return nil, nil
	}
	if d.components.StartWhenAvailable {
		probe.Gate = &cloudprobe.Gate{Deployed: d.deployed, Start: func() { close(d.needed) }}
	}
	return probe, nil
}
