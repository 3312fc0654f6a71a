//go:build integration

package integration

import (
	"context"

	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
	"github.com/openstack-csi/csi-operator/test/openstack/testcloud"
)

// openStack is the cloud of a test.
type openStack struct {
	*scope
	cloud testcloud.Cloud
	ca    []byte // nil without TLS
}

func startOpenStack(s *scope, config simulator.Config, faults []simulator.Fault) *openStack {
	s.t.Helper()
	cloud, err := testcloud.New(config)
	s.must(err)
	s.must(cloud.Start(context.WithoutCancel(s.ctx())))
	o := &openStack{scope: s, cloud: cloud, ca: cloud.CA()}
	for _, fault := range faults {
		o.fault(fault)
	}
	return o
}

// fault enables a fault. The returned function disables it.
func (o *openStack) fault(f simulator.Fault) (end func()) {
	o.t.Helper()
	set, err := o.cloud.SetFault(f)
	o.must(err)
	return func() {
		o.t.Helper()
		o.must(o.cloud.ClearFaults(set.ID))
	}
}

func (o *openStack) addType(name string) {
	o.t.Helper()
	o.must(o.cloud.AddShareType(simulator.ShareType{Name: name}))
}
