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
// the ClusterCSIDriver. Unlike library-go's for CSI drivers, it also watches the TLS profile. If
// the cluster is not OpenShift, it observes no proxy, because library-go would warn at each sync.
func (d *driver) configObserver(name string) (factory.Controller, error) {
	proxies, apiServers := d.cluster.Config.Proxies, d.cluster.Config.APIServers
	informers := []factory.Informer{d.operator.Informer(), proxies.Informer(), apiServers.Informer()}
	listers := csiconfigobservercontroller.Listers{ProxyLister_: proxies, APIServerLister_: apiServers}
	for _, informer := range informers {
		listers.PreRunCachesSynced = append(listers.PreRunCachesSynced, informer.HasSynced)
	}
	observers := []configobserver.ObserveConfigFunc{observeTLS}
	if d.settings.ClusterID == "" {
		observers = append(observers,
			proxy.NewProxyObserveFunc(csiconfigobservercontroller.ProxyConfigPath()))
	}
	return configobserver.NewConfigObserver(name, d.operator, d.events, listers, informers,
		observers...), nil
}

func observeTLS(
	listers configobserver.Listers, recorder events.Recorder, existing map[string]any,
) (map[string]any, []error) {
	return apiserver.ObserveTLSSecurityProfileWithPaths(listers, recorder, existing,
		csiconfigobservercontroller.MinTLSVersionPath(), csiconfigobservercontroller.CipherSuitesPath())
}
