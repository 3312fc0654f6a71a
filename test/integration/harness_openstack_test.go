//go:build integration

package integration

import (
	"context"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// openStack is the simulated cloud of a test.
type openStack struct {
	*scope
	cloud *simulator.Simulator
	sim   *simulator.Simulator
	ca    []byte // nil without TLS
}

// startOpenStack starts a cloud with the faults.
func startOpenStack(s *scope, config simulator.Config, faults []simulator.Fault) *openStack {
	s.t.Helper()
	sim, err := simulator.New(config)
	s.must(err)
	s.must(sim.Start(context.WithoutCancel(s.ctx())))
	o := &openStack{scope: s, cloud: sim.Client(), sim: sim}
	if config.TLS {
		o.ca, err = o.cloud.CA(s.ctx())
		s.must(err)
	}
	for _, fault := range faults {
		o.fault(fault)
	}
	return o
}

// cloudsYAML returns a clouds.yaml with the credentials that the cloud accepts now.
func (o *openStack) cloudsYAML(c simulator.Clouds) []byte {
	o.t.Helper()
	text, err := o.cloud.CloudsYAML(o.ctx(), c)
	o.must(err)
	return text
}

// fault enables a fault. The returned function disables it.
func (o *openStack) fault(f simulator.Fault) (end func()) {
	o.t.Helper()
	set, err := o.cloud.SetFault(o.ctx(), f)
	o.must(err)
	return func() {
		o.t.Helper()
		o.must(o.cloud.ClearFaults(o.ctx(), set.ID))
	}
}

// counters returns the numbers of requests that the cloud has received.
func (o *openStack) counters() simulator.Counters {
	o.t.Helper()
	counters, err := o.cloud.Counters(o.ctx())
	o.must(err)
	return counters
}

// addType adds a share type to the cloud.
func (o *openStack) addType(name string) {
	o.t.Helper()
	_, err := o.cloud.AddShareType(o.ctx(), simulator.ShareType{Name: name})
	o.must(err)
}

// revokeTokens makes the next request of the operator fail, so that it logs in again.
func (o *openStack) revokeTokens() {
	o.t.Helper()
	_, err := o.cloud.RevokeTokens(o.ctx())
	o.must(err)
}
