package clustertest

import (
	"sync/atomic"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"

	"github.com/openshift/library-go/pkg/controller/factory"
)

// Acceptance is a hook.Acceptance without events. Held means that OpenStack has not accepted the
// credentials.
type Acceptance struct{ Held atomic.Bool }

// Holds returns whether the credentials must wait.
func (a *Acceptance) Holds(*corev1.Secret) bool { return a.Held.Load() }

// Informer returns an informer without events.
func (*Acceptance) Informer() factory.Informer { return quiet{} }

// quiet is an informer without events.
type quiet struct{}

func (quiet) AddEventHandler(
	cache.ResourceEventHandler,
) (cache.ResourceEventHandlerRegistration, error) {
	return nil, nil
}

func (quiet) HasSynced() bool { return true }
