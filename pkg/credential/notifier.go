package credential

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// notifier is an informer without objects in an API server. Controllers that use it as an informer
// sync when notify is called.
type notifier struct {
	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
}

// AddEventHandler makes each notify call the handler.
func (n *notifier) AddEventHandler(
	handler cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.handlers = append(n.handlers, handler)
	return nil, nil
}

// HasSynced returns true, because there is no cache to fill.
func (n *notifier) HasSynced() bool { return true }

func (n *notifier) notify() {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, handler := range n.handlers {
		handler.OnUpdate(&corev1.Secret{}, &corev1.Secret{}) // handlers ignore the object
	}
}
