package credential

import (
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
)

// bell is an informer of something that no API server has. Controllers that take it as an informer sync when it rings.
type bell struct {
	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
}

// AddEventHandler has the handler called at each ring.
func (b *bell) AddEventHandler(handler cache.ResourceEventHandler) (cache.ResourceEventHandlerRegistration, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.handlers = append(b.handlers, handler)
	return nil, nil
}

// HasSynced is true: there is nothing to wait for.
func (b *bell) HasSynced() bool { return true }

func (b *bell) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, handler := range b.handlers {
		handler.OnUpdate(&corev1.Secret{}, &corev1.Secret{}) // handlers want an object, but do not look at it
	}
}
