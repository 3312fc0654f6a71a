package operator

import (
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/configobserver"
	"github.com/openshift/library-go/pkg/operator/configobserver/apiserver"
	"github.com/openshift/library-go/pkg/operator/configobserver/proxy"
	"github.com/openshift/library-go/pkg/operator/csi/csiconfigobservercontroller"
	"github.com/openshift/library-go/pkg/operator/events"
)

// configObserver returns the controller that copies the proxy and the TLS profile of the cluster to
// the ClusterCSIDriver. Unlike library-go's for CSI drivers, it also watches the TLS profile.
func (d *driver) configObserver(name string) (factory.Controller, error) {
	proxies, apiServers := d.cluster.Config.Proxies, d.cluster.Config.APIServers
	informers := []factory.Informer{d.operator.Informer(), proxies.Informer(), apiServers.Informer()}
	listers := csiconfigobservercontroller.Listers{ProxyLister_: proxies, APIServerLister_: apiServers}
	for _, informer := range informers {
		listers.PreRunCachesSynced = append(listers.PreRunCachesSynced, informer.HasSynced)
	}
	observeProxy := proxy.NewProxyObserveFunc(csiconfigobservercontroller.ProxyConfigPath())
	return configobserver.NewConfigObserver(name, d.operator, d.events, listers, informers,
		observeProxy, observeTLS), nil
}

func observeTLS(
	listers configobserver.Listers, recorder events.Recorder, existing map[string]any,
) (map[string]any, []error) {
	return apiserver.ObserveTLSSecurityProfileWithPaths(listers, recorder, existing,
		csiconfigobservercontroller.MinTLSVersionPath(), csiconfigobservercontroller.CipherSuitesPath())
}
