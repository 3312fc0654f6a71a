// Package credential tries the credentials that a driver reads, before its pods get them, and says when they expire. Its callers
// are the driver plugins, which choose the Secret and what to try, and the core, which runs the controller.
package credential

import (
	"context"
	"crypto/sha256"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	coreinformers "k8s.io/client-go/informers/core/v1"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Client asks OpenStack with the credentials of one Secret.
type Client interface {
	// Try returns nil if OpenStack accepts the credentials for what the driver does, else an openstack.Error.
	Try(context.Context) error
	// Expiry returns when the credentials expire, the zero time if they do not or nobody tells.
	Expiry(context.Context) (time.Time, error)
}

// Options say what a Watcher watches.
type Options struct {
	Cluster *cluster.Cluster
	Events  events.Recorder
	Clock   clock.PassiveClock
	// Service starts conditions and events, and is the label of metrics.
	Service string
	// Secret is the name of the Secret that the driver reads, on the controller side. The Secret that node plugins of a hosted cluster
	// read is never tried: its administrator writes it, and would choose whom the operator connects to.
	Secret string
	// Open returns a Client for the content of the Secret. It sends nothing.
	Open func(openstack.Secret) Client
	// Informers tell of changes of what a Client trusts.
	Informers []factory.Informer
	// Wait is how long pods wait for credentials that OpenStack has not accepted.
	Wait time.Duration
	// Interval is the time from one attempt to the next.
	Interval time.Duration
}

// digest tells contents of Secrets apart by what a login needs.
type digest [sha256.Size]byte

func digestOf(data map[string][]byte) digest {
	hash := sha256.New()
	for _, key := range []string{openstack.CloudsKey, openstack.CAKey} {
		sum := sha256.Sum256(data[key])
		hash.Write(sum[:])
	}
	return digest(hash.Sum(nil))
}

// attempt is what is known of a content that OpenStack has not accepted.
type attempt struct {
	// since is when this process first saw the content. What an earlier process saw is not known: the conditions that it left are
	// not evidence, because the administrator of a hosted cluster can write them.
	since time.Time
	// tried is when OpenStack was asked last; err is its answer.
	tried time.Time
	err   error
}

// Watcher tries the content of a Secret until OpenStack accepts it. Pods wait meanwhile, within bounds.
type Watcher struct {
	factory.Controller
	Metrics Metrics

	Options
	name    string
	secrets coreinformers.SecretInformer
	bell    bell

	mu sync.Mutex
	// accepted is the content that OpenStack accepted last; nil is none.
	accepted *digest
	// attempts are about contents that OpenStack has not accepted.
	attempts map[digest]*attempt

	// What belongs to sync: the client of the content opened, what came of asking it again after it was accepted, and its expiry.
	client  Client
	secret  openstack.Secret
	opened  digest
	again   attempt
	expiry  expiry
	told    outlook
	message string
}

// New returns a Watcher that has not tried anything yet.
func New(o Options) *Watcher {
	namespace := o.Cluster.Namespaces.ControlPlane
	w := &Watcher{
		Options:  o,
		Metrics:  newMetrics(),
		name:     o.Cluster.Name(flavour.ControlPlane, "Secret", namespace, o.Secret),
		secrets:  o.Cluster.Side(flavour.ControlPlane).ObjectInformers.For(namespace, o.Secret).Core().V1().Secrets(),
		attempts: map[digest]*attempt{},
	}
	w.Controller = factory.New().
		WithBareInformers(o.Cluster.Operator.Informer()).
		WithInformers(append([]factory.Informer{w.secrets.Informer()}, o.Informers...)...).
		WithSync(w.sync).
		ResyncEvery(o.Interval).
		ToController(o.Service+"CredentialsController", o.Events)
	return w
}

// Holds tells whether pods that have other credentials are to keep them for now: the Secret has the content that is tried, and
// OpenStack has neither accepted it nor had the time for that.
func (w *Watcher) Holds(secret *corev1.Secret) bool {
	content, current := digestOf(secret.Data), w.current()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.accepted != nil && *w.accepted == content {
		return false
	}
	if a := w.attempts[content]; a != nil {
		return w.Clock.Since(a.since) < w.Wait
	}
	// A content that nobody has seen yet is tried at once if it is that of the watched Secret, and never otherwise.
	return current != nil && digestOf(current.Data) == content
}

// Informer tells when Holds may say something else.
func (w *Watcher) Informer() factory.Informer { return &w.bell }

// current is the cached Secret, nil if there is none.
func (w *Watcher) current() *corev1.Secret {
	namespace := w.Cluster.Namespaces.ControlPlane
	secret, err := w.secrets.Lister().Secrets(namespace).Get(w.Secret)
	if err != nil { // a cache has no error but that it is missing
		return nil
	}
	return secret
}
