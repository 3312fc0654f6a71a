package operator

import (
	"k8s.io/client-go/tools/cache"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/configobserver"
	"github.com/openshift/library-go/pkg/operator/configobserver/apiserver"
	"github.com/openshift/library-go/pkg/operator/configobserver/proxy"
	"github.com/openshift/library-go/pkg/operator/csi/csiconfigobservercontroller"
	"github.com/openshift/library-go/pkg/operator/events"
)

// configObserver returns the controller that writes the cluster's proxy and TLS profile into the ClusterCSIDriver. It is
// library-go's for CSI drivers, but awake to changes of the TLS profile, and with a profile that has no gaps.
func (d *driver) configObserver() factory.Controller {
	proxies, apiServers := d.cluster.Config.Proxies, d.cluster.Config.APIServers
	return configobserver.NewConfigObserver(
		d.conditionName("CSIConfigObserverController"),
		d.operator,
		d.events,
		csiconfigobservercontroller.Listers{
			ProxyLister_:     proxies,
			APIServerLister_: apiServers,
			PreRunCachesSynced: []cache.InformerSynced{
				d.operator.Informer().HasSynced, proxies.Informer().HasSynced, apiServers.Informer().HasSynced,
			},
		},
		[]factory.Informer{d.operator.Informer(), proxies.Informer(), apiServers.Informer()},
		proxy.NewProxyObserveFunc(csiconfigobservercontroller.ProxyConfigPath()),
		observeTLS,
	)
}

func observeTLS(listers configobserver.Listers, recorder events.Recorder, existing map[string]any) (map[string]any, []error) {
	return apiserver.ObserveTLSSecurityProfileWithPaths(listers, recorder, existing,
		csiconfigobservercontroller.MinTLSVersionPath(), csiconfigobservercontroller.CipherSuitesPath())
}
