package cluster

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/retry"

	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
)

// adapt fills in what the earlier operators knew at run time: images, and credentials.
func (c *Cluster) adapt(object *unstructured.Unstructured, o fixtures.Operator) error {
	switch object.GetKind() {
	case "Deployment", "DaemonSet":
		pod, err := podOf(object)
		if err != nil {
			return err
		}
		err = errors.Join(setImages(pod.InitContainers, o), setImages(pod.Containers, o))
		if err != nil {
			return err
		}
		spec, err := runtime.DefaultUnstructuredConverter.ToUnstructured(pod)
		if err != nil {
			return err
		}
		return unstructured.SetNestedMap(object.Object, spec, "spec", "template", "spec")
	case "Secret":
		return c.setCredentials(object)
	}
	return nil
}

// podOf returns the pod of a Deployment or a DaemonSet.
func podOf(object *unstructured.Unstructured) (*corev1.PodSpec, error) {
	spec, _, err := unstructured.NestedMap(object.Object, "spec", "template", "spec")
	if err != nil {
		return nil, err
	}
	pod := &corev1.PodSpec{}
	return pod, runtime.DefaultUnstructuredConverter.FromUnstructured(spec, pod)
}

// setImages replaces the images of earlier containers by those of this release with the same
// program.
func setImages(containers []corev1.Container, o fixtures.Operator) error {
	for i := range containers {
		program, _, _ := strings.Cut(path.Base(containers[i].Image), ":")
		name := strings.ToUpper(strings.ReplaceAll(program, "-", "_")) + "_IMAGE"
		env := o.Container().Env
		found := slices.IndexFunc(env, func(v corev1.EnvVar) bool { return v.Name == name })
		if found < 0 {
			return fmt.Errorf("operator %s has no variable %s", o.Name, name)
		}
		containers[i].Image = env[found].Value
	}
	return nil
}

// setCredentials writes an application credential into the Secret of the driver of Manila, if the
// Secret contains one.
func (c *Cluster) setCredentials(secret *unstructured.Unstructured) error {
	data, _, err := unstructured.NestedStringMap(secret.Object, "stringData")
	if err != nil || data["os-authURL"] == "" {
		return err
	}
	info, credentials := c.cloud.Info(), c.cloud.Credentials()
	data["os-authURL"], data["os-region"] = info.AuthURL, info.Regions[0]
	data["os-applicationCredentialID"] = credentials.ApplicationCredentialID
	data["os-applicationCredentialSecret"] = credentials.ApplicationCredentialSecret
	return unstructured.SetNestedStringMap(secret.Object, data, "stringData")
}

// replace writes an object. Like the earlier operators, it creates an object again if an immutable
// field differs.
func (c *Cluster) replace(ctx context.Context, object *unstructured.Unstructured) error {
	if object.GetKind() == "Deployment" {
		if err := c.createCertificate(ctx, object); err != nil {
			return err
		}
	}
	w := c.management.writer
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error { return w.Write(ctx, object) })
	if apierrors.IsInvalid(err) {
		err = errors.Join(w.Delete(ctx, object), w.Write(ctx, object))
	}
	return err
}

// createCertificate creates the Secret with the serving certificate of a Deployment, as the service
// CA of OpenShift does.
func (c *Cluster) createCertificate(
	ctx context.Context, deployment *unstructured.Unstructured,
) error {
	pod, err := podOf(deployment)
	if err != nil {
		return err
	}
	i := slices.IndexFunc(pod.Volumes, func(v corev1.Volume) bool {
		return v.Name == "metrics-serving-cert"
	})
	if i < 0 {
		return nil
	}
	chain, key, err := cert.GenerateSelfSignedCertKey(deployment.GetName(), nil, nil)
	if err != nil {
		return err
	}
	secret, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Secret{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: deployment.GetNamespace(), Name: pod.Volumes[i].Secret.SecretName,
		},
		Type: corev1.SecretTypeTLS,
		Data: map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: key},
	})
	if err != nil {
		return err
	}
	return c.management.writer.Create(ctx, &unstructured.Unstructured{Object: secret})
}
