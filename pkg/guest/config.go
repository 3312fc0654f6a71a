package guest

import (
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/tools/cache"

	configv1 "github.com/openshift/api/config/v1"
	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/crypto"
)

// ConfigName is the name of all config.openshift.io objects that operators read.
const ConfigName = "cluster"

// Config contains listers of config.openshift.io objects of the guest side. Each read is checked.
type Config struct {
	Infrastructures *Lister[configv1.Infrastructure]
	// APIServers and Proxies are nil if the cluster has no such objects.
	APIServers *Lister[configv1.APIServer]
	Proxies    *Lister[configv1.Proxy]

	// recorded returns the cluster ID if the cluster is not OpenShift, nil otherwise.
	recorded  func() (string, error)
	informers dynamicinformer.DynamicSharedInformerFactory
	// unobserved is the observed configuration of a cluster without these objects.
	unobserved []byte
}

// NewConfig creates the informers. Messages append suffix to the name of an object. Nothing runs
// before Start.
func NewConfig(client dynamic.Interface, suffix string) *Config {
	selectName := func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, ConfigName).String()
	}
	all := dynamicinformer.NewFilteredDynamicSharedInformerFactory(client, 0, "", selectName)
	return &Config{
		Infrastructures: newLister(all, "Infrastructure", suffix, checkInfrastructure),
		APIServers:      newLister(all, "APIServer", suffix, checkAPIServer),
		Proxies:         newLister(all, "Proxy", suffix, checkProxy),
		informers:       all,
	}
}

// NewStaticConfig returns the Config of a cluster that is not OpenShift, whose ID is recorded. It
// contains only an Infrastructure with the control plane topology External.
func NewStaticConfig(recorded func() (string, error)) *Config {
	c := &Config{
		Infrastructures: newStaticLister("Infrastructure", checkInfrastructure),
		recorded:        recorded, unobserved: unobserved(),
	}
	_ = c.Infrastructures.store.Add(&unstructured.Unstructured{Object: map[string]any{ // has a key
		"metadata": map[string]any{"name": ConfigName},
		"status":   map[string]any{"controlPlaneTopology": string(configv1.ExternalTopologyMode)},
	}})
	return c
}

// Start runs the informers until stop is closed.
func (c *Config) Start(stop <-chan struct{}) {
	if c.informers != nil {
		c.informers.Start(stop)
	}
}

// Lister lists the single object of a kind. It returns only the fields that operators use, and an
// error if one of them is invalid.
type Lister[T any] struct {
	informer     factory.Informer
	store        cache.Store
	resource     schema.GroupVersionResource
	kind, suffix string
	check        func(*checks, *T) *T
}

func newLister[T any](
	informers dynamicinformer.DynamicSharedInformerFactory, kind, suffix string,
	check func(*checks, *T) *T,
) *Lister[T] {
	resource := resourceOf(kind)
	informer := informers.ForResource(resource).Informer()
	// Returns an error only for a running informer.
	_ = informer.SetTransform(DropUnused)
	return &Lister[T]{informer, informer.GetStore(), resource, kind, suffix, check}
}

func newStaticLister[T any](kind string, check func(*checks, *T) *T) *Lister[T] {
	store := cache.NewStore(cache.MetaNamespaceKeyFunc)
	return &Lister[T]{unchanging{}, store, resourceOf(kind), kind, "", check}
}

func resourceOf(kind string) schema.GroupVersionResource {
	resource, _ := meta.UnsafeGuessKindToResource(configv1.GroupVersion.WithKind(kind))
	return resource
}

// unchanging is the informer of objects that never change.
type unchanging struct{}

func (unchanging) HasSynced() bool { return true }

func (unchanging) AddEventHandler(
	cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

// Informer returns an informer that triggers syncs. It does not give access to the object.
func (k *Lister[T]) Informer() factory.Informer { return k.informer }

// Get returns the object, decoded and checked.
func (k *Lister[T]) Get(name string) (*T, error) {
	obj, found, err := k.store.GetByKey(name)
	if err != nil {
		return nil, err
	}
	if !found {
		return nil, apierrors.NewNotFound(k.resource.GroupResource(), name)
	}
	return k.decode(obj)
}

// List returns the object as a list.
func (k *Lister[T]) List(labels.Selector) ([]*T, error) {
	object, err := k.Get(ConfigName)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return []*T{object}, err
}

func (k *Lister[T]) decode(obj any) (*T, error) {
	object, ok := obj.(*unstructured.Unstructured)
	if !ok {
		return nil, fmt.Errorf("the cache of %s contains a %T", k.resource.Resource, obj)
	}
	c := &checks{object: k.kind + " " + object.GetName() + k.suffix}
	content := map[string]any{"spec": object.Object["spec"], "status": object.Object["status"]}
	decoded := new(T)
	if err := convert(content, decoded); err != nil {
		return nil, undecodable(c.object, "", err)
	}
	checked := k.check(c, decoded)
	if len(c.faults) > 0 {
		return nil, errors.Join(c.faults...)
	}
	return checked, nil
}

const (
	clusterIDField = "status.infrastructureName"
	clusterIDRule  = "letters, digits, '-', '_' and '.', at most 253"
)

// ClusterID returns status.infrastructureName of Infrastructure, or the ID that is recorded. It
// returns an error if it is empty.
func (c *Config) ClusterID() (string, error) {
	if c.recorded != nil {
		return c.recorded()
	}
	infrastructure, err := c.Infrastructures.Get(ConfigName)
	if err != nil {
		return "", err
	}
	if infrastructure.Status.InfrastructureName == "" {
		return "", &FieldError{
			Object: "Infrastructure " + ConfigName + c.Infrastructures.suffix, Field: clusterIDField,
			Problem: "is missing", Fix: "set it to the infrastructure ID of the cluster",
		}
	}
	return infrastructure.Status.InfrastructureName, nil
}

// InfrastructureID returns status.infrastructureName, "" if it is invalid.
func InfrastructureID(given *configv1.Infrastructure) string {
	id := given.Status.InfrastructureName
	if len(id) > maxClusterID || !isClusterID.MatchString(id) {
		return ""
	}
	return id
}

func checkInfrastructure(c *checks, given *configv1.Infrastructure) *configv1.Infrastructure {
	if id := given.Status.InfrastructureName; id != "" {
		c.pattern(clusterIDField, id, maxClusterID, isClusterID,
			"set it to the infrastructure ID of the cluster: "+clusterIDRule)
	}
	c.pattern("status.controlPlaneTopology", string(given.Status.ControlPlaneTopology), maxTopology,
		topology, "use HighlyAvailable, SingleReplica or External")
	config := given.Spec.CloudConfig
	if config.Name != "" {
		c.pattern("spec.cloudConfig.name", config.Name, maxName, objectName,
			"use the name of a ConfigMap")
	}
	if config.Key != "" {
		c.pattern("spec.cloudConfig.key", config.Key, maxName, dataKey, "use a key of the ConfigMap")
	}
	checked := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: ConfigName}}
	checked.Spec.CloudConfig = config
	checked.Status.InfrastructureName = given.Status.InfrastructureName
	checked.Status.ControlPlaneTopology = given.Status.ControlPlaneTopology
	return checked
}

func checkProxy(c *checks, given *configv1.Proxy) *configv1.Proxy {
	c.proxyURL("status.httpProxy", given.Status.HTTPProxy)
	c.proxyURL("status.httpsProxy", given.Status.HTTPSProxy)
	c.noProxy("status.noProxy", given.Status.NoProxy)
	return &configv1.Proxy{ObjectMeta: metav1.ObjectMeta{Name: ConfigName}, Status: given.Status}
}

func checkAPIServer(c *checks, given *configv1.APIServer) *configv1.APIServer {
	checked := &configv1.APIServer{ObjectMeta: metav1.ObjectMeta{Name: ConfigName}}
	profile := given.Spec.TLSSecurityProfile
	if profile == nil {
		return checked
	}
	const field = "spec.tlsSecurityProfile."
	if profile.Type != configv1.TLSProfileCustomType {
		if configv1.TLSProfiles[profile.Type] == nil && profile.Type != "" {
			c.fault(field+"type", "is "+quote(string(profile.Type)),
				"use Old, Intermediate, Modern or Custom")
		}
		checked.Spec.TLSSecurityProfile = &configv1.TLSSecurityProfile{Type: profile.Type}
		return checked
	}
	custom := &configv1.CustomTLSProfile{}
	if profile.Custom != nil {
		custom.MinTLSVersion, custom.Ciphers = profile.Custom.MinTLSVersion, profile.Custom.Ciphers
	}
	c.tlsVersion(field+"custom.minTLSVersion", string(custom.MinTLSVersion))
	if len(custom.Ciphers) > maxCiphers {
		c.fault(field+"custom.ciphers", fmt.Sprintf("has %d entries", len(custom.Ciphers)),
			fmt.Sprintf("list at most %d ciphers", maxCiphers))
	}
	checked.Spec.TLSSecurityProfile = &configv1.TLSSecurityProfile{
		Type: profile.Type, Custom: withDefaults(custom),
	}
	return checked
}

// withDefaults adds missing values of the default profile to a custom profile. A list without any
// cipher that Go knows counts as missing.
func withDefaults(custom *configv1.CustomTLSProfile) *configv1.CustomTLSProfile {
	standard := configv1.TLSProfiles[crypto.DefaultTLSProfileType]
	if custom.MinTLSVersion == "" {
		custom.MinTLSVersion = standard.MinTLSVersion
	}
	if len(crypto.OpenSSLToIANACipherSuites(custom.Ciphers)) == 0 {
		custom.Ciphers = standard.Ciphers
	}
	return custom
}
