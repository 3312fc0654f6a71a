package manila

import (
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
)

// caCopierName is the name of library-go's controller, so that the condition type is still
// ResourceSyncControllerDegraded. That controller copies only within a cluster.
const caCopierName = "ResourceSyncController"

// caSource is the ConfigMap with the CA of the cloud, on the control plane side.
type caSource struct {
	cluster.Object[corev1.ConfigMap]
}

func newCASource(c *cluster.Cluster) caSource {
	n := c.Namespaces
	return caSource{c.ConfigMap(flavour.ControlPlane, n.UserConfig, n.CloudConfig)}
}

// authority returns the CA, "" if there is none or if it is binary data, and the name of its
// source. It ignores the rest of the ConfigMap, which may contain old passwords. On HyperShift the
// provider owns the ConfigMap.
func (s caSource) authority() (pem, source string, err error) {
	key := cluster.KeyOf(s.Get(), s.Name, caConfigMapKey)
	pem, err = key.Text()
	return pem, key.Source, err
}

// caCopier copies the CA to the namespace where the nodes, and standalone the controllers, mount
// it. It deletes the copy if the source contains no CA.
type caCopier struct {
	factory.Controller
	cluster *cluster.Cluster
	source  caSource
	copied  cluster.Object[corev1.ConfigMap]
}

func newCACopier(s plugin.Dependencies) *caCopier {
	c := &caCopier{
		cluster: s.Cluster,
		source:  newCASource(s.Cluster),
		copied:  s.Cluster.ConfigMap(flavour.Guest, s.Cluster.Namespaces.Guest, caConfigMap),
	}
	c.Controller = factory.New().
		WithInformers(s.Cluster.Operator.Informer(), c.source.Informer, c.copied.Informer).
		WithSync(cluster.WhileManaged(s.Cluster.Operator, c.sync)).
		WithSyncDegradedOnError(s.Cluster.Operator).
		ResyncEvery(resync).
		ToController(caCopierName, s.Events)
	return c
}

// isCopy reports whether the copy contains the CA and nothing else, or is missing if there is none.
func isCopy(existing *corev1.ConfigMap, ca string) bool {
	if existing == nil || ca == "" {
		return existing == nil && ca == ""
	}
	return maps.Equal(existing.Data, map[string]string{caConfigMapKey: ca}) &&
		len(existing.BinaryData) == 0
}

func (c *caCopier) sync(ctx context.Context, syncCtx factory.SyncContext) error {
	existing := c.copied.Get()
	ca, _, _ := c.source.authority() // the condition about the credentials contains the error
	api, recorder := c.cluster.Side(flavour.Guest).Kube.CoreV1(), syncCtx.Recorder()
	var err error
	switch {
	case isCopy(existing, ca):
		return nil
	case ca == "":
		_, _, err = resourceapply.DeleteConfigMap(ctx, api, recorder, existing)
	default:
		_, _, err = resourceapply.ApplyConfigMap(ctx, api, recorder, &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: c.cluster.Namespaces.Guest, Name: caConfigMap, Labels: c.cluster.Labels,
			},
			Data: map[string]string{caConfigMapKey: ca},
		})
	}
	if err != nil {
		return fmt.Errorf("updating %s, a copy of %s: %w", c.copied.Name, c.source.Name, err)
	}
	return nil
}
