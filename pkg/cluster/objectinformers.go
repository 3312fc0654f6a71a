package cluster

import (
	"reflect"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"

	"github.com/openstack-csi/csi-operator/pkg/guest"
)

// ObjectInformers creates informers of single objects. They watch only the object with that name,
// because the namespaces of operators, above all the namespace of a hosted control plane, contain
// many objects of others. The operator must neither keep their content nor react to their changes
// (decision 0014).
type ObjectInformers struct {
	kube      kubernetes.Interface
	mu        sync.Mutex
	factories map[types.NamespacedName]informers.SharedInformerFactory
}

// NewObjectInformers returns ObjectInformers for a client. They send nothing before Start.
func NewObjectInformers(kube kubernetes.Interface) *ObjectInformers {
	return &ObjectInformers{
		kube:      kube,
		factories: map[types.NamespacedName]informers.SharedInformerFactory{},
	}
}

// For returns the informers of the objects of a name in a namespace: one for each kind, the same
// one at each call. Informers that are requested after Start do not run.
func (n *ObjectInformers) For(namespace, name string) informers.SharedInformerFactory {
	n.mu.Lock()
	defer n.mu.Unlock()
	key := types.NamespacedName{Namespace: namespace, Name: name}
	if n.factories[key] == nil {
		n.factories[key] = newInformers(n.kube, namespace,
			informers.WithTransform(guest.OnlyObject(namespace, name, guest.DropUnused(""))),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) {
				o.FieldSelector = fields.OneTermEqualSelector(metav1.ObjectNameField, name).String()
			}))
	}
	return n.factories[key]
}

// Start starts the informers that have been requested.
func (n *ObjectInformers) Start(stop <-chan struct{}) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, factory := range n.factories {
		factory.Start(stop)
	}
}

// WaitForCacheSync waits until the started informers have synced or stop is closed. It returns for
// each object and type whether its informer has synced.
func (n *ObjectInformers) WaitForCacheSync(
	stop <-chan struct{},
) map[types.NamespacedName]map[reflect.Type]bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	synced := map[types.NamespacedName]map[reflect.Type]bool{}
	for key, factory := range n.factories {
		synced[key] = factory.WaitForCacheSync(stop)
	}
	return synced
}
