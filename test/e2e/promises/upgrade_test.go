//go:build e2e

package promises

import (
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	autoscalingv1 "k8s.io/api/autoscaling/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/retry"

	"github.com/openstack-csi/csi-operator/legacy"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/test/devcluster/fixtures"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// TestUpgradesKeepEveryRecord replaces the drivers of each earlier generation by those of this
// release, while StatefulSets write to volumes of the earlier drivers. After the first upgrade, the
// next generation is a rollback. After each upgrade, the new drivers unmount and mount the volumes.
func TestUpgradesKeepEveryRecord(t *testing.T) {
	x := use(t, kind{idle: true})
	for _, release := range []string{"4.17", "4.22", "5.1"} {
		t.Run(release, func(t *testing.T) {
			x := &test{&pods.Test{T: t, Cluster: x.Cluster}}
			x.scaleOperators(0)
			x.installEarlier(release)
			withdraw := x.letEarlierDriversReadSecrets()
			volume := x.writeInStatefulSet("volume", pods.Cinder())
			share := x.writeInStatefulSet("share", pods.Manila())
			x.mustReplacePods(x.workloads(), func() {
				withdraw()
				x.scaleOperators(1)
			})
			volume.mustBeUndisturbed()
			share.mustBeUndisturbed()
			for _, w := range []*writer{volume, share} {
				x.Must(x.Remove(t.Context(), w.pod))
				w = x.follow(w.pod)
				x.mustHaveWrittenInStatefulSet(w, strings.TrimSuffix(w.pod, "-0"))
			}
		})
	}
}

// scaleOperators sets the number of pods of the operators, and waits for it.
func (x *test) scaleOperators(replicas int32) {
	x.T.Helper()
	var operators []workload
	for _, o := range x.Cluster.Operators {
		_, err := x.Cluster.Client.AppsV1().Deployments(o.Namespace).UpdateScale(x.T.Context(), o.Name,
			&autoscalingv1.Scale{
				ObjectMeta: metav1.ObjectMeta{Name: o.Name, Namespace: o.Namespace},
				Spec:       autoscalingv1.ScaleSpec{Replicas: replicas},
			}, metav1.UpdateOptions{})
		x.Must(err)
		operators = append(operators, workload{o.Namespace, o.Name, true})
	}
	x.awaitRollouts(operators)
}

// installEarlier writes the objects of the earlier operators of a release, and waits for their
// drivers.
func (x *test) installEarlier(release string) {
	x.T.Helper()
	writer, err := fixtures.NewWriter(x.Cluster.Config)
	x.Must(err)
	for _, o := range x.Cluster.Operators {
		generations, err := legacy.Generations(o.ClusterCSIDriver, flavour.Standalone,
			o.OperandNamespace)
		x.Must(err)
		i := slices.IndexFunc(generations, func(g legacy.Generation) bool {
			return strings.HasSuffix(g.Name, "-"+release)
		})
		if i < 0 {
			x.T.Fatalf("driver %s has no generation %s", o.Driver, release)
		}
		for _, object := range generations[i].Objects {
			x.Must(x.adapt(object.Unstructured, o))
			if object.GetKind() == "Deployment" {
				x.writeCertificate(object)
			}
			x.Must(x.replace(writer, object.Unstructured))
		}
	}
	x.awaitRollouts(x.workloads())
}

// letEarlierDriversReadSecrets gives the earlier controllers a permission that a ClusterRole of
// cluster-storage-operator gave them on OpenShift. It returns a function that withdraws it.
func (x *test) letEarlierDriversReadSecrets() (withdraw func()) {
	x.T.Helper()
	const name = "earlier-drivers"
	rbac := x.Cluster.Client.RbacV1()
	meta := metav1.ObjectMeta{Name: name}
	_, err := rbac.ClusterRoles().Create(x.T.Context(), &rbacv1.ClusterRole{
		ObjectMeta: meta,
		Rules: []rbacv1.PolicyRule{{
			APIGroups: []string{""}, Resources: []string{"secrets"}, Verbs: []string{"get"},
		}},
	}, metav1.CreateOptions{})
	x.Must(err)
	binding := &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta,
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: name},
	}
	for _, o := range x.Cluster.Operators {
		binding.Subjects = append(binding.Subjects, rbacv1.Subject{
			Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName,
			Name: "system:serviceaccounts:" + o.OperandNamespace,
		})
	}
	_, err = rbac.ClusterRoleBindings().Create(x.T.Context(), binding, metav1.CreateOptions{})
	x.Must(err)
	withdraw = sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), pods.CleanupTimeout)
		defer cancel()
		err := errors.Join(rbac.ClusterRoleBindings().Delete(ctx, name, metav1.DeleteOptions{}),
			rbac.ClusterRoles().Delete(ctx, name, metav1.DeleteOptions{}))
		if err != nil {
			x.T.Error(err)
		}
	})
	x.T.Cleanup(withdraw)
	return withdraw
}

// replace writes an object. Like the earlier operators, it creates an object again if an immutable
// field differs.
func (x *test) replace(writer fixtures.Writer, object *unstructured.Unstructured) error {
	err := retry.RetryOnConflict(retry.DefaultRetry, func() error {
		return writer.Write(x.T.Context(), object)
	})
	if apierrors.IsInvalid(err) {
		err = errors.Join(writer.Delete(x.T.Context(), object), writer.Write(x.T.Context(), object))
	}
	return err
}

// adapt fills in what the earlier operators knew at run time: images, and credentials.
func (x *test) adapt(object *unstructured.Unstructured, o fixtures.Operator) error {
	switch {
	case object.GetKind() == "Deployment" || object.GetKind() == "DaemonSet":
		return setImages(object, o)
	case object.GetKind() == "Secret" && o.Driver == "manila":
		return x.setCredentials(object)
	}
	return nil
}

// setImages replaces the images of an earlier workload by those of this release with the same
// program.
func setImages(object *unstructured.Unstructured, o fixtures.Operator) error {
	pod, _, err := unstructured.NestedMap(object.Object, "spec", "template", "spec")
	if err != nil {
		return err
	}
	for _, field := range []string{"initContainers", "containers"} {
		containers, _, err := unstructured.NestedSlice(pod, field)
		if err != nil {
			return err
		}
		for _, container := range containers {
			values, ok := container.(map[string]any)
			if !ok {
				return fmt.Errorf("%s contains container %v", object.GetName(), container)
			}
			if values["image"], err = imageOf(fmt.Sprint(values["image"]), o); err != nil {
				return err
			}
		}
		if containers != nil {
			pod[field] = containers
		}
	}
	return unstructured.SetNestedMap(object.Object, pod, "spec", "template", "spec")
}

// imageOf returns the image of this release for an image of an earlier one.
func imageOf(earlier string, o fixtures.Operator) (string, error) {
	program, _, _ := strings.Cut(path.Base(earlier), ":")
	name := strings.ToUpper(strings.ReplaceAll(program, "-", "_")) + "_IMAGE"
	for _, variable := range o.Container().Env {
		if variable.Name == name {
			return variable.Value, nil
		}
	}
	return "", fmt.Errorf("operator %s has no variable %s for image %s", o.Name, name, earlier)
}

// setCredentials writes an application credential into the Secret of the driver of Manila, if the
// Secret contains one.
func (x *test) setCredentials(secret *unstructured.Unstructured) error {
	data, _, err := unstructured.NestedStringMap(secret.Object, "stringData")
	if err != nil || data["os-authURL"] == "" {
		return err
	}
	info, credentials := x.Cluster.Cloud().Info(), x.Cluster.Cloud().Credentials()
	data["os-authURL"], data["os-region"] = info.AuthURL, info.Regions[0]
	data["os-applicationCredentialID"] = credentials.ApplicationCredentialID
	data["os-applicationCredentialSecret"] = credentials.ApplicationCredentialSecret
	return unstructured.SetNestedStringMap(secret.Object, data, "stringData")
}

// writeCertificate creates the Secret with the serving certificate of a Deployment, as the service
// CA of OpenShift does.
func (x *test) writeCertificate(object legacy.Object) {
	x.T.Helper()
	var deployment appsv1.Deployment
	x.Must(runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, &deployment))
	for _, volume := range deployment.Spec.Template.Spec.Volumes {
		if volume.Name != "metrics-serving-cert" {
			continue
		}
		chain, key, err := cert.GenerateSelfSignedCertKey(deployment.Name, nil, nil)
		x.Must(err)
		_, err = x.Cluster.Client.CoreV1().Secrets(object.GetNamespace()).Create(x.T.Context(),
			&corev1.Secret{
				ObjectMeta: metav1.ObjectMeta{Name: volume.Secret.SecretName},
				Type:       corev1.SecretTypeTLS,
				Data: map[string][]byte{
					corev1.TLSCertKey: chain, corev1.TLSPrivateKeyKey: key,
				},
			}, metav1.CreateOptions{})
		if !apierrors.IsAlreadyExists(err) {
			x.Must(err)
		}
	}
}
