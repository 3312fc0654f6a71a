package cinder

import (
	"bytes"
	"context"
	"fmt"
	"maps"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"

	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// loginVolume is the volume of the pods with the clouds.yaml.
const loginVolume = "secret-cinderplugin"

func loginData(login *clouds.Login) map[string][]byte {
	return map[string][]byte{loginKey: login.CloudsYAML()}
}

func (c *configSync) loginWritten() bool {
	accepted, _ := c.credentials.Accepted()
	existing := c.login.Get()
	return accepted != nil && existing != nil &&
		maps.EqualFunc(existing.Data, loginData(accepted.Login), bytes.Equal)
}

func (c *configSync) writeLogin(
	ctx context.Context, syncCtx factory.SyncContext, login *clouds.Login,
) error {
	kube := c.cluster.Side(flavour.ControlPlane).Kube.CoreV1()
	_, _, err := resourceapply.ApplySecret(ctx, kube, syncCtx.Recorder(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: c.cluster.Namespaces.ControlPlane, Name: loginSecret, Labels: c.cluster.Labels,
		},
		Type: corev1.SecretTypeOpaque,
		Data: loginData(login),
	})
	if err != nil {
		return fmt.Errorf("writing %s: %w", c.login.Name, err)
	}
	return nil
}

// loginHook rolls the Deployment out when OpenStack has accepted another login, and this login and
// cloud-conf of its side are written. Until then the pods keep what is deployed: that of an earlier
// release mounts the driver Secret.
func (c *configSync) loginHook() hook.Workload {
	data := func() any {
		wanted := c.wanted.Load()
		accepted, _ := c.credentials.Accepted()
		if accepted == nil || wanted == nil || !c.loginWritten() ||
			!contains(c.sources.deployed.Get(), *wanted) {
			return nil
		}
		return loginData(accepted.Login)
	}
	return hook.AcceptedHash(c.secret, data, keepLogin, c.login.Informer,
		c.sources.deployed.Informer, c.credentials.Informer())
}

// keepLogin copies the volume with the login from the deployed pods, if it is of another Secret.
func keepLogin(pod, deployed *corev1.PodSpec) {
	secret := func(v corev1.Volume) string {
		if v.Name != loginVolume || v.Secret == nil {
			return ""
		}
		return v.Secret.SecretName
	}
	for i := range pod.Volumes {
		for _, volume := range deployed.Volumes {
			if own := secret(pod.Volumes[i]); own != "" && secret(volume) != "" && secret(volume) != own {
				pod.Volumes[i] = volume
			}
		}
	}
}
