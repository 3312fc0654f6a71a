package operator

import (
	"context"
	"crypto/rand"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

const hashKeyKey = "key"

const hashKeyDescription = "Key of the hashes in the annotations of the driver's workloads. " +
	"Another key rolls the workloads out once."

// hashKey stores the key of the hashes of rollout inputs in a Secret beside the operator, so that
// each run of the operator writes the same hashes.
type hashKey struct {
	name, namespace string
	labels          map[string]string
	kube            kubernetes.Interface
	secret          cluster.Object[corev1.Secret]
	key             *hook.Key
}

func (d *driver) hashKeyController(name string) (factory.Controller, error) {
	namespace, secretName := d.cluster.Namespaces.Operator, d.operatorName+"-hash-key"
	k := &hashKey{
		name: secretName, namespace: namespace, labels: d.cluster.Labels,
		kube:   d.cluster.Side(flavour.ControlPlane).Kube,
		secret: d.cluster.Secret(flavour.ControlPlane, namespace, secretName), key: d.key,
	}
	write := cluster.WhileManaged(d.operator, d.initialSyncs.track(k.sync))
	sync := func(ctx context.Context, syncCtx factory.SyncContext) error {
		k.read() // also while Unmanaged, so that it is known as soon as workloads need it
		return write(ctx, syncCtx)
	}
	return factory.New().
		WithInformers(d.operator.Informer(), k.secret.Informer).
		WithSync(sync).
		WithSyncDegradedOnError(d.operator).
		ToController(name, d.events), nil
}

func (k *hashKey) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	if k.read() {
		return nil
	}
	return k.write(ctx, syncCtx.Recorder())
}

// read returns whether the cache contains the key.
func (k *hashKey) read() bool {
	secret := k.secret.Get()
	found := secret != nil && valid(secret)
	if found {
		k.key.Set(secret.Data[hashKeyKey])
	}
	return found
}

func valid(secret *corev1.Secret) bool {
	return len(secret.Data[hashKeyKey]) >= hook.KeySize
}

// write creates or updates the Secret, with the key that this process uses already or with a new
// one. It keeps a key that the cache does not contain yet, because another process uses it.
func (k *hashKey) write(ctx context.Context, recorder events.Recorder) error {
	live, err := k.kube.CoreV1().Secrets(k.namespace).Get(ctx, k.name, metav1.GetOptions{})
	switch {
	case err == nil && valid(live):
		k.key.Set(live.Data[hashKeyKey])
		return nil
	case err != nil && !apierrors.IsNotFound(err):
		return fmt.Errorf("reading %s: %w", k.secret.Name, err)
	}
	value := k.key.Value()
	if value == nil {
		value = make([]byte, hook.KeySize)
		rand.Read(value) // never returns an error
	}
	_, _, err = resourceapply.ApplySecret(ctx, k.kube.CoreV1(), recorder, &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: k.namespace, Name: k.name, Labels: k.labels,
			Annotations: map[string]string{"kubernetes.io/description": hashKeyDescription},
		},
		Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{hashKeyKey: value},
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", k.secret.Name, err)
	}
	k.key.Set(value)
	return nil
}
