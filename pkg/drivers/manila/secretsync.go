package manila

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/credential"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// secretSyncController writes the accepted login into the Secret that the CSI driver reads at each
// call. The Secret is beside the nodes. Without an accepted login it stays as it is.
type secretSyncController struct {
	cluster     *cluster.Cluster
	credentials credential.Credentials
	written     cluster.Object[corev1.Secret]
}

func newSecretSyncController(
	s plugin.Dependencies, credentials credential.Credentials,
) factory.Controller {
	c := &secretSyncController{
		cluster: s.Cluster, credentials: credentials,
		written: s.Cluster.Secret(flavour.Guest, s.Cluster.Namespaces.Guest, loginSecret),
	}
	return factory.New().
		WithInformers(s.Cluster.Operator.Informer(), c.written.Informer, credentials.Informer()).
		WithSync(cluster.WhileManaged(s.Cluster.Operator, c.sync)).
		WithSyncDegradedOnError(s.Cluster.Operator).
		ResyncEvery(resync).
		ToController("ManilaSecretSyncController", s.Events)
}

func (c *secretSyncController) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	var errs []error
	if err := c.credentials.Malformed(); err != nil {
		errs = append(errs, fmt.Errorf("%w; the driver keeps its present credentials", err))
	}
	if accepted, _ := c.credentials.Accepted(); accepted != nil {
		errs = append(errs, c.write(ctx, syncCtx, accepted.Login))
	}
	return errors.Join(errs...)
}

// write removes other keys: the driver rejects keys that exclude each other, which a change from a
// password to an application credential would leave.
func (c *secretSyncController) write(
	ctx context.Context, syncCtx factory.SyncContext, login *clouds.Login,
) error {
	data := map[string][]byte{}
	for key, value := range login.ManilaKeys() {
		data[key] = []byte(value)
	}
	if existing := c.written.Get(); existing != nil &&
		maps.EqualFunc(existing.Data, data, bytes.Equal) {
		return nil
	}
	kube := c.cluster.Side(flavour.Guest).Kube.CoreV1()
	_, _, err := resourceapply.ApplySecret(ctx, kube, syncCtx.Recorder(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.cluster.Namespaces.Guest, Name: loginSecret, Labels: c.cluster.Labels,
		},
		Type: corev1.SecretTypeOpaque,
		Data: data,
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", c.written.Name, err)
	}
	return nil
}
