package operator

import (
	"k8s.io/client-go/tools/cache"

	configv1 "github.com/openshift/api/config/v1"
	configlisters "github.com/openshift/client-go/config/listers/config/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/crypto"
	"github.com/openshift/library-go/pkg/operator/configobserver"
	"github.com/openshift/library-go/pkg/operator/configobserver/apiserver"
	"github.com/openshift/library-go/pkg/operator/configobserver/proxy"
	"github.com/openshift/library-go/pkg/operator/csi/csiconfigobservercontroller"
	"github.com/openshift/library-go/pkg/operator/events"
)

// configObserver returns the controller that writes the cluster's proxy and TLS profile into the ClusterCSIDriver. It is
// library-go's for CSI drivers, but awake to changes of the TLS profile, and with a profile that has no gaps.
func (d *driver) configObserver() factory.Controller {
	config := d.cluster.Config.Config().V1()
	proxies, apiServers := config.Proxies(), config.APIServers()
	return configobserver.NewConfigObserver(
		d.conditionName("CSIConfigObserverController"),
		d.operator,
		d.events,
		csiconfigobservercontroller.Listers{
			ProxyLister_:     proxies.Lister(),
			APIServerLister_: completeProfiles{apiServers.Lister()},
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

// completeProfiles gives custom TLS profiles what they leave open. library-go would leave a placeholder in the workloads for
// ciphers that are none.
type completeProfiles struct {
	configlisters.APIServerLister
}

func (c completeProfiles) Get(name string) (*configv1.APIServer, error) {
	found, err := c.APIServerLister.Get(name)
	if err != nil {
		return nil, err
	}
	profile := found.Spec.TLSSecurityProfile
	if profile == nil || profile.Type != configv1.TLSProfileCustomType || profile.Custom == nil {
		return found, nil // these have no gaps
	}
	complete := found.DeepCopy()
	custom, standard := complete.Spec.TLSSecurityProfile.Custom, configv1.TLSProfiles[crypto.DefaultTLSProfileType]
	if custom.MinTLSVersion == "" {
		custom.MinTLSVersion = standard.MinTLSVersion
	}
	if len(crypto.OpenSSLToIANACipherSuites(custom.Ciphers)) == 0 { // none, or none that Go knows
		custom.Ciphers = standard.Ciphers
	}
	return complete, nil
}
