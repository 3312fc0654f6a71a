package operator

import (
	"context"
	"slices"
	"strings"

	"k8s.io/utils/ptr"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/configobserver"
	"github.com/openshift/library-go/pkg/operator/configobserver/apiserver"
	"github.com/openshift/library-go/pkg/operator/configobserver/proxy"
	"github.com/openshift/library-go/pkg/operator/csi/csiconfigobservercontroller"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
)

// configObserver returns the controller that copies the proxy and the TLS profile of the cluster to
// the ClusterCSIDriver. Unlike library-go's for CSI drivers, it also watches the TLS profile. It
// returns nil if the cluster has no such objects: see guest.Config.Complete.
func (d *driver) configObserver(name string) (factory.Controller, error) {
	proxies, apiServers := d.cluster.Config.Proxies, d.cluster.Config.APIServers
	if proxies == nil {
		return nil, nil
	}
	informers := []factory.Informer{d.operator.Informer(), proxies.Informer(), apiServers.Informer()}
	listers := csiconfigobservercontroller.Listers{ProxyLister_: proxies, APIServerLister_: apiServers}
	for _, informer := range informers {
		listers.PreRunCachesSynced = append(listers.PreRunCachesSynced, informer.HasSynced)
	}
	client := cluster.View{OperatorClientWithFinalizers: d.operator, Condition: sortLines}
	return configobserver.NewConfigObserver(name, client, d.events, listers, informers,
		observeTLS, proxy.NewProxyObserveFunc(csiconfigobservercontroller.ProxyConfigPath())), nil
}

// sortLines sorts the lines of a message: library-go calls the observers in random order.
func sortLines(_ context.Context, c *cluster.Condition) {
	lines := strings.Split(ptr.Deref(c.Message, ""), "\n")
	slices.Sort(lines)
	c.WithMessage(strings.Join(slices.Compact(lines), "\n"))
}

func observeTLS(
	listers configobserver.Listers, recorder events.Recorder, existing map[string]any,
) (map[string]any, []error) {
	return apiserver.ObserveTLSSecurityProfileWithPaths(listers, recorder, existing,
		csiconfigobservercontroller.MinTLSVersionPath(), csiconfigobservercontroller.CipherSuitesPath())
}
