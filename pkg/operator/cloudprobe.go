package operator

import "github.com/openshift/library-go/pkg/controller/factory"

// cloudProbe returns the controller that polls OpenStack and decides when the driver is needed.
func (d *driver) cloudProbe(string) ([]factory.Controller, error) {
	if d.components.Gate == nil {
		return nil, nil
	}
	keeper := &gatekeeper{
		gate:     d.components.Gate,
		client:   d.operator,
		events:   d.events,
		metrics:  d.cloudMetrics,
		clock:    d.clock,
		interval: d.settings.PollInterval,
		deployed: d.deployed,
		start:    func() { close(d.needed) },
		trusted:  d.trustedCA,
	}
	return []factory.Controller{keeper.controller()}, nil
}
