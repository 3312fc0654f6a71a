// Package credential is the only reader of the credentials that people write. It tests them with
// the login of the drivers, keeps the ones that OpenStack has accepted, and reports when they
// expire. The driver plugins create its controller, and generate from the accepted login what the
// drivers read. pkg/operator runs it.
package credential

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/clock"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// Options configure a Watcher.
type Options struct {
	Cluster *cluster.Cluster
	Events  events.Recorder
	Clock   clock.PassiveClock
	// Service starts the names of conditions and events, and is a label of the metrics.
	Service string
	// Secret is the name of the driver Secret on the control plane side. The operator never reads a
	// login in a guest cluster: its administrator could make the operator connect to any server.
	Secret string
	// CA returns the CA of the cloud for a Secret that contains none, "" if there is none, and the
	// name of its source for messages. It is optional.
	CA func() (pem, source string, err error)
	// Missing is what to do if the Secret is missing, Wrong if its content is wrong.
	Missing, Wrong string
	// Words replaces what messages of pkg/openstack name. It is optional.
	Words *strings.Replacer
	// Services returns what the driver needs.
	Services func() []openstack.Service
	// TrustedCAs returns the trusted CA bundle of the cluster. It is optional.
	TrustedCAs func() []byte
	// Observe is called after each request to OpenStack. It is optional.
	Observe func(openstack.Request)
	// Informers report changes of CA, Services and TrustedCAs.
	Informers []factory.Informer
	// Needed is closed when the driver is needed. Before, there is no condition. nil means always.
	Needed <-chan struct{}
	// Interval is the time between two polls.
	Interval time.Duration
}

// Credentials are what controllers of a driver use of a Watcher.
type Credentials interface {
	Accepted() (*Accepted, error)
	Malformed() error
	Remarks() []string
	Generation() int
	Informer() factory.Informer
}

// Accepted is content that OpenStack has accepted.
type Accepted struct {
	Login *clouds.Login
	// Client has the session of the test.
	Client *openstack.Client

	content digest
}

func (a *Accepted) digest() digest {
	if a == nil {
		return digest{}
	}
	return a.content
}

// digest is a hash of everything that a test depends on.
type digest [sha256.Size]byte

// test is the last test of the present content.
type test struct {
	content digest
	at      time.Time
	// client is nil if the content is malformed. Its session may outlive a test that failed.
	client *openstack.Client
}

// Watcher is a controller that tests the content of the driver Secret.
type Watcher struct {
	factory.Controller
	Metrics Metrics

	Options
	source  cluster.Object[corev1.Secret]
	backoff *openstack.Backoff
	changes cluster.Signal
	// tested is closed after the first test.
	tested chan struct{}
	first  sync.Once

	mu     sync.Mutex
	result result
	// generation counts the changes of result, except a new session.
	generation int

	// The fields below are accessed only by sync.
	last    test
	expiry  expiry
	message string
}

type result struct {
	accepted *Accepted // the content that OpenStack accepted last, or nil
	failure  error     // of the tested content, nil if it is accepted
	remarks  []string  // about the tested content
	tested   digest    // of the tested content
}

// equal compares results, except their sessions.
func (r result) equal(other result) bool {
	return r.accepted.digest() == other.accepted.digest() &&
		fmt.Sprint(r.failure) == fmt.Sprint(other.failure) && slices.Equal(r.remarks, other.remarks)
}

// New returns a Watcher.
func New(o Options) *Watcher {
	c := o.Cluster
	w := &Watcher{
		Options: o,
		Metrics: newMetrics(),
		source:  c.Secret(flavour.ControlPlane, c.Namespaces.ControlPlane, o.Secret),
		backoff: openstack.NewBackoff(o.Clock),
		tested:  make(chan struct{}),
		result:  result{failure: errUntested()},
	}
	w.Controller = factory.New().
		WithBareInformers(c.Operator.Informer()).
		WithInformers(w.source.Informer).
		WithInformers(o.Informers...).
		WithSync(cluster.AwaitManaged(c.Operator, w.sync)).
		WithPostStartHooks(cluster.Poll(o.Interval), w.reportWhenNeeded).
		ToController(o.Service+"CredentialsController", o.Events)
	return w
}

func errUntested() error {
	return &openstack.Error{
		Reason:  openstack.CloudUnreachable,
		Message: "The operator has not tested the credentials yet; it does so automatically",
	}
}

// Accepted returns the content that OpenStack accepted last, nil if this process knows none. The
// error is that of the present content.
func (w *Watcher) Accepted() (*Accepted, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.result.accepted, w.result.failure
}

// Malformed returns the error of the present content if a person has to correct it.
func (w *Watcher) Malformed() error {
	if _, err := w.Accepted(); err != nil && openstack.ReasonOf(err) == openstack.InvalidCredentials {
		return err
	}
	return nil
}

// Rejected returns why a person has to change the present content, nil while the Secret is missing
// or its content is not tested. A change of the Secret ends it before the test.
func (w *Watcher) Rejected() error {
	secret := w.source.Get()
	_, content, err := w.read(secret)
	if err != nil && secret != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if err := w.result.failure; content == w.result.tested && err != nil &&
		openstack.ReasonOf(err) == openstack.AuthenticationFailed {
		return err
	}
	return nil
}

// Remarks lists what has no effect in the present content, with advice.
func (w *Watcher) Remarks() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.result.remarks
}

// Generation returns a number that changes with the results of Accepted and Remarks; it is 0 before
// the first test.
func (w *Watcher) Generation() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.generation
}

// Client returns the client of the accepted login. If there is none, it waits for the first test
// and returns the error of the last one.
func (w *Watcher) Client(ctx context.Context) (*openstack.Client, error) {
	select {
	case <-w.tested:
	case <-ctx.Done():
	}
	accepted, err := w.Accepted()
	if accepted == nil {
		return nil, err
	}
	return accepted.Client, nil
}

// Informer returns an informer that triggers a sync when the results of Accepted or Remarks may
// have changed.
func (w *Watcher) Informer() factory.Informer { return &w.changes }

// Source returns the informer of the driver Secret.
func (w *Watcher) Source() factory.Informer { return w.source.Informer }

// reportWhenNeeded triggers a sync, which reports, when the driver is needed.
func (w *Watcher) reportWhenNeeded(ctx context.Context, syncCtx factory.SyncContext) error {
	select {
	case <-w.Needed: // never, if the driver is always needed
		syncCtx.Queue().Add(factory.DefaultQueueKey)
	case <-ctx.Done():
	}
	return nil
}

// read returns the access with the content of the Secret, and a hash of everything that its test
// depends on: what the login does not use may change without a test.
func (w *Watcher) read(secret *corev1.Secret) (access openstack.Access, sum digest, err error) {
	content := clouds.Content{Name: w.source.Name, Fix: w.Wrong}
	if w.CA != nil {
		content.CA, content.CAName, content.CAErr = w.CA()
	}
	if secret == nil {
		err = errors.New(w.source.Name + " is missing: " + w.Missing)
	} else {
		content.Data = secret.Data
		access.Login, err = content.Login()
	}
	if err != nil {
		malformed := openstack.Error{Reason: openstack.InvalidCredentials, Message: err.Error()}
		return access, sha256.Sum256([]byte(malformed.Message)), &malformed
	}
	access.Words, access.Observe = w.Words, w.Observe
	if w.TrustedCAs != nil {
		access.TrustedCAs = w.TrustedCAs()
	}
	return access, sha256.Sum256(fmt.Append(nil, access.Fingerprint(), w.Services())), nil
}
