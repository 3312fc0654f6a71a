package cluster

import (
	"cmp"
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

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/generations"
)

// earlierRoles is the folder of what cluster-storage-operator grants to earlier drivers.
const earlierRoles = "earlier-roles"

// InstallEarlier writes the objects of the operators of an earlier release, such as 4.22, into a
// cluster with real nodes. The drivers run the programs of this release. The operators must have no
// pods.
func (c *Cluster) InstallEarlier(ctx context.Context, release string) error {
	if !c.RunsOperators() {
		return errors.New("drivers of an earlier release need real nodes")
	}
	var all []*unstructured.Unstructured
	for _, o := range c.opts.Operators {
		objects, err := c.earlierObjects(o, release)
		if err != nil {
			return err
		}
		all = append(all, objects...)
	}
	for _, object := range all {
		if err := c.replace(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// WithdrawEarlierRoles deletes the permissions that only earlier drivers need.
func (c *Cluster) WithdrawEarlierRoles(ctx context.Context) error {
	var errs []error
	for _, o := range c.opts.Operators {
		objects, err := fixtures.Render(earlierRoles, fixtures.Values{Operator: o})
		errs = append(errs, err)
		for _, object := range objects {
			errs = append(errs, c.management.writer.Delete(ctx, object))
		}
	}
	return errors.Join(errs...)
}

// earlierObjects returns the objects of an earlier operator, with what it knew at run time.
func (c *Cluster) earlierObjects(
	o fixtures.Operator, release string,
) ([]*unstructured.Unstructured, error) {
	all, err := generations.Of(o.ClusterCSIDriver, flavour.Standalone, o.OperandNamespace)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(all, func(g generations.Generation) bool {
		return g.Name == o.Driver+"-"+release
	})
	if i < 0 {
		return nil, fmt.Errorf("driver %s has no release %q, only %s", o.Driver, release,
			cmp.Or(names(all), "this one"))
	}
	objects, err := fixtures.Render(earlierRoles, fixtures.Values{Operator: o})
	if err != nil {
		return nil, err
	}
	for _, object := range all[i].Objects {
		if err := c.adapt(object.Unstructured, o); err != nil {
			return nil, fmt.Errorf("adapting %s %q: %w", object.GetKind(), object.GetName(), err)
		}
		objects = append(objects, object.Unstructured)
	}
	return objects, nil
}

// names returns the releases of the generations of a driver.
func names(all []generations.Generation) string {
	var names []string
	for _, g := range all {
		_, release, _ := strings.Cut(g.Name, "-")
		names = append(names, release)
	}
	return strings.Join(names, ", ")
}

// adapt fills in what the earlier operators knew at run time: images, and credentials.
func (c *Cluster) adapt(object *unstructured.Unstructured, o fixtures.Operator) error {
	switch object.GetKind() {
	case "Deployment", "DaemonSet":
		return fixtures.ChangePod(object, func(pod *corev1.PodSpec) error {
			return errors.Join(setImages(pod.InitContainers, o), setImages(pod.Containers, o))
		})
	case "Secret":
		return c.setCredentials(object)
	}
	return nil
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
	name := ""
	err := fixtures.ChangePod(deployment, func(pod *corev1.PodSpec) error {
		for _, v := range pod.Volumes {
			if v.Name == "metrics-serving-cert" {
				name = v.Secret.SecretName
			}
		}
		return nil
	})
	if err != nil || name == "" {
		return err
	}
	chain, key, err := cert.GenerateSelfSignedCertKey(deployment.GetName(), nil, nil)
	if err != nil {
		return err
	}
	secret, err := runtime.DefaultUnstructuredConverter.ToUnstructured(&corev1.Secret{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "Secret"},
		ObjectMeta: metav1.ObjectMeta{Namespace: deployment.GetNamespace(), Name: name},
		Type:       corev1.SecretTypeTLS,
		Data:       map[string][]byte{corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: key},
	})
	if err != nil {
		return err
	}
	return c.management.writer.Create(ctx, &unstructured.Unstructured{Object: secret})
}
