// Package credential tests the credentials in a driver Secret before the driver's pods read them,
// and reports when they expire. The driver plugins create its controller, and pkg/operator runs it.
package credential

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Client sends requests to OpenStack with the credentials of one Secret.
type Client interface {
	// Try returns nil if OpenStack accepts the credentials for what the driver does. Otherwise it
	// returns an openstack.Error.
	Try(context.Context) error
	// Expiry returns when the credentials expire, or the zero time if they do not expire or OpenStack
	// does not report it.
	Expiry(context.Context) (time.Time, error)
}

// Options configure a Watcher.
type Options struct {
	Cluster *cluster.Cluster
	Events  events.Recorder
	Clock   clock.PassiveClock
	// Service starts the names of conditions and events, and is a label of the metrics.
	Service string
	// Secret is the name of the driver Secret on the control plane side. The operator never tests the
	// Secret in a guest cluster: its administrator could make the operator connect to any server.
	Secret string
	// Open returns a Client for the content of the Secret. It sends nothing.
	Open func(openstack.Secret) Client
	// Informers report changes of the CAs that a Client trusts.
	Informers []factory.Informer
	// Wait is how long pods keep their old credentials while OpenStack does not accept the new ones.
	Wait time.Duration
	// Interval is the time between two attempts.
	Interval time.Duration
}

// digest is a hash of the keys of a Secret that a login uses.
type digest [sha256.Size]byte

func digestOf(data map[string][]byte) digest {
	hash := sha256.New()
	for _, key := range []string{openstack.CloudsKey, openstack.CAKey} {
		sum := sha256.Sum256(data[key])
		hash.Write(sum[:])
	}
	return digest(hash.Sum(nil))
}

// attempt is the last test of a content that OpenStack has not accepted.
type attempt struct {
	// since is when this process first read the content. The conditions of an earlier process are
	// ignored, because the administrator of a guest cluster can write them.
	since time.Time
	// tried is the time of the last attempt, and err its result.
	tried time.Time
	err   error
}

// copied is a content that is not that of the watched Secret, and when this process first read it.
type copied struct {
	content digest
	since   time.Time
}

// Watcher is a controller that tests the content of a Secret until OpenStack accepts it. Meanwhile,
// for a bounded time, pods keep their old credentials.
type Watcher struct {
	factory.Controller
	Metrics Metrics

	Options
	source  cluster.Object[corev1.Secret]
	changes notifier

	mu sync.Mutex
	// accepted is the content that OpenStack accepted last, or nil.
	accepted *digest
	// attempts contains the contents that OpenStack has not accepted.
	attempts map[digest]*attempt
	// copied is the last content that differed from that of the watched Secret.
	copied copied

	// The fields below are accessed only by sync.
	client   Client // for the content opened
	secret   openstack.Secret
	opened   digest
	recheck  attempt // the last test after OpenStack accepted the content
	expiry   expiry
	notified outlook
	message  string
}

// New returns a Watcher.
func New(o Options) *Watcher {
	c := o.Cluster
	w := &Watcher{
		Options:  o,
		Metrics:  newMetrics(),
		source:   c.Secret(flavour.ControlPlane, c.Namespaces.ControlPlane, o.Secret),
		attempts: map[digest]*attempt{},
	}
	w.Controller = factory.New().
		WithBareInformers(c.Operator.Informer()).
		WithInformers(w.source.Informer).
		WithInformers(o.Informers...).
		WithSync(cluster.WhileManaged(c.Operator, w.sync)).
		WithPostStartHooks(cluster.Poll(o.Interval)).
		ToController(o.Service+"CredentialsController", o.Events)
	return w
}

// Holds returns true if pods must keep their old credentials for now: the Watcher is testing the
// content of the Secret, OpenStack has not accepted it, and the time Wait has not passed. Content
// that differs from the watched Secret is not tested, and held for one Interval. A missing Secret,
// nil, is not held.
func (w *Watcher) Holds(secret *corev1.Secret) bool {
	if secret == nil {
		return false
	}
	content, current := digestOf(secret.Data), w.source.Get()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accepted != nil && *w.accepted == content {
		return false
	}
	if w.attempts[content] == nil && (current == nil || digestOf(current.Data) != content) {
		// HyperShift may write the copy in the guest cluster just before the watched Secret.
		if w.copied.content != content {
			w.copied = copied{content, w.Clock.Now()}
		}
		return w.holdsCopy()
	}
	// The wait begins even if the Watcher does not run.
	return w.Clock.Since(w.begin(content).since) < w.Wait
}

// holdsCopy returns true while the watched Secret may still get the copied content. The caller
// holds the lock.
func (w *Watcher) holdsCopy() bool {
	return w.Clock.Since(w.copied.since) < min(w.Wait, w.Interval)
}

// Informer returns an informer that triggers a sync when the result of Holds may have changed.
func (w *Watcher) Informer() factory.Informer { return &w.changes }

// notifier is an informer without objects in an API server. Controllers that use it as an informer
// sync when notify is called.
type notifier struct {
	mu       sync.Mutex
	handlers []cache.ResourceEventHandler
}

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
