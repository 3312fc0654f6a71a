package kubectl

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/yaml"

	configv1 "github.com/openshift/api/config/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// installedCluster is a cluster with an installation, and objects of others.
type installedCluster struct {
	*testing.T
	client.WithWatch
	discovery.ServerResourcesInterface

	// before is called before each deletion, which fails with its error.
	before func(n int, o client.Object) error
	// deleted are the objects that were deleted, in this order.
	deleted []string
}

const (
	manilaPod, manilaShare = "shop/web", "pvc-share"
	loginOfShares          = "csi-manila-secrets"
	shareDriver            = "nfs.manila.csi.openstack.org"
)

// manifests returns all objects of all files of the flavour, of drivers and of what they share.
func manifests(t *testing.T) (all []unstructured.Unstructured) {
	t.Helper()
	folders := regexp.MustCompile(`^(drivers/(cinder|manila)/generated/kubernetes/` +
		`(operator/|csi-addons/)?|crds/generated/|namespace/|monitoring/kubernetes/(generated/)?|` +
		`csi-addons/controller/)[^/]+\.yaml$`)
	root := os.DirFS("../../assets")
	assert.NilError(t, fs.WalkDir(root, ".", func(name string, _ fs.DirEntry, err error) error {
		if err != nil || !folders.MatchString(name) {
			return err
		}
		text, err := fs.ReadFile(root, name)
		for document := range strings.SplitSeq("\n"+string(text), "\n---\n") {
			u := unstructured.Unstructured{}
			filled := regexp.MustCompile(`\$\{\w*NAMESPACE\}`).ReplaceAllString(document, defaultNamespace)
			err = errors.Join(err, yaml.Unmarshal([]byte(filled), &u.Object))
			if u.GetName() != "" {
				if strings.HasPrefix(name, "csi-addons") { // its kustomization sets the label
					u.SetLabels(map[string]string{partLabel: partOf})
				}
				if u.GetKind() != deployment { // the rest is large
					u.Object = map[string]any{
						"apiVersion": u.GetAPIVersion(), "kind": u.GetKind(), "metadata": u.Object["metadata"],
					}
				}
				all = append(all, u)
			}
		}
		return err
	}))
	assert.Assert(t, len(all) > 100, "found %d objects", len(all))
	return all
}

// newInstalledCluster returns a cluster with an installation. Beside each object is one of another
// program, whose name starts with the same words. The Secret of the user has the label.
func newInstalledCluster(t *testing.T, files []unstructured.Unstructured, more ...client.Object,
) *installedCluster {
	t.Helper()
	types, err := newScheme()
	assert.NilError(t, err)
	objects := slices.Clone(more)
	for i := range files {
		u := files[i].DeepCopy()
		objects = append(objects, u)
		other := u.DeepCopy()
		other.SetName(u.GetName() + "-of-others")
		other.SetLabels(map[string]string{partLabel: partOf + "-2", instanceLabel: "openstack-manila"})
		if u.GetNamespace() != "" {
			other.SetNamespace("others")
		}
		if !slices.Contains(ownKinds(), u.GroupVersionKind()) { // operators read only one object
			objects = append(objects, other)
		}
	}
	for _, d := range (&cluster{flavour: "kubernetes"}).drivers() {
		for _, name := range append(d.allLeases(), "others-"+d.lease) {
			objects = append(objects, newObject("coordination.k8s.io/v1", "Lease", defaultNamespace, name,
				nil))
		}
		for _, name := range []string{d.loginSecret, d.operator + "-hash-key"} {
			objects = append(objects, newObject("v1", "Secret", defaultNamespace, name,
				map[string]string{partLabel: partOf, instanceLabel: d.instance()}))
		}
	}
	for _, kind := range append(kindsInTests(), managerKinds()...) {
		if !types.Recognizes(kind) {
			types.AddKnownTypeWithName(kind, &unstructured.Unstructured{})
			types.AddKnownTypeWithName(kind.GroupVersion().WithKind(kind.Kind+"List"),
				&unstructured.UnstructuredList{})
		}
	}
	c := &installedCluster{T: t, before: func(int, client.Object) error { return nil }}
	c.WithWatch = newFake(types).WithRESTMapper(newMapper()).WithObjects(unique(objects)...).
		WithInterceptorFuncs(interceptor.Funcs{Delete: c.delete}).Build()
	return c
}

func newObject(version, kind, namespace, name string, labels map[string]string) client.Object {
	u := &unstructured.Unstructured{}
	u.SetAPIVersion(version)
	u.SetKind(kind)
	u.SetNamespace(namespace)
	u.SetName(name)
	u.SetLabels(labels)
	return u
}

// unique returns the first of the objects with the same name.
func unique(all []client.Object) []client.Object {
	byName := map[string]client.Object{}
	for _, o := range all {
		name := fmt.Sprintf("%T %v %s/%s", o, o.GetObjectKind().GroupVersionKind(), o.GetNamespace(),
			o.GetName())
		byName[name] = o
	}
	return slices.Collect(maps.Values(byName))
}

func (c *installedCluster) delete(ctx context.Context, inner client.WithWatch, o client.Object,
	options ...client.DeleteOption,
) error {
	if err := c.before(len(c.deleted), o); err != nil {
		return err
	}
	c.deleted = append(c.deleted, o.GetObjectKind().GroupVersionKind().Kind+" "+o.GetName())
	return inner.Delete(ctx, o, options...)
}

// uninstall runs the command.
func (c *installedCluster) uninstall(args ...string) (int, string) {
	c.Helper()
	o := newOptions()
	o.interval = time.Millisecond
	connectTo(o, c)
	o.discover = func(*rest.Config) (discovery.ServerResourcesInterface, error) { return c, nil }
	var output bytes.Buffer
	code := execute(c.Context(), o, append([]string{"uninstall", "--kubeconfig=" + kubeconfig(c.T)},
		args...), Streams{Out: &output, Err: &output})
	return code, strings.Join(strings.Fields(output.String()), " ")
}

func kindsInTests() []schema.GroupVersionKind {
	return slices.Concat(removedKinds(), kindsOf(corev1.SchemeGroupVersion, "PersistentVolumeClaim",
		"PersistentVolume", "Pod"))
}

func managed(key, value string, isLabel bool) client.Object {
	o := &appsv1.Deployment{}
	o.Namespace, o.Name = defaultNamespace, "manila-csi-driver-operator"
	o.Labels = map[string]string{partLabel: partOf, instanceLabel: "openstack-manila"}
	o.Spec.Template.Spec.Containers = []corev1.Container{{}}
	marks := map[string]string{key: value}
	for _, by := range owners() {
		if by.mark == key && by.prefix != "" {
			marks[by.prefix+"namespace"] = "in"
		}
	}
	if isLabel {
		maps.Copy(marks, o.GetLabels())
		o.SetLabels(marks)
	} else {
		o.SetAnnotations(marks)
	}
	return o
}

// ServerPreferredNamespacedResources returns the kinds of the cluster.
func (c *installedCluster) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	var all []*metav1.APIResourceList
	for _, kind := range kindsInTests() {
		resource, singular := meta.UnsafeGuessKindToResource(kind)
		if m, err := c.RESTMapper().RESTMapping(kind.GroupKind()); err == nil &&
			m.Scope.Name() == meta.RESTScopeNameRoot {
			continue
		}
		all = append(all, &metav1.APIResourceList{
			GroupVersion: kind.GroupVersion().String(),
			APIResources: []metav1.APIResource{{
				Name: resource.Resource, SingularName: singular.Resource, Kind: kind.Kind,
				Verbs: metav1.Verbs{"list", "delete"},
			}},
		})
	}
	return all, nil
}

func (c *installedCluster) all(ctx context.Context) (all []object) {
	c.Helper()
	for _, kind := range kindsInTests() {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
		assert.NilError(c, c.List(ctx, list))
		for _, o := range list.Items {
			o.SetGroupVersionKind(kind)
			all = append(all, o)
		}
	}
	return all
}

// left returns the objects as `Kind namespace/name`.
func (c *installedCluster) left() (names []string) {
	c.Helper()
	for _, o := range c.all(c.Context()) {
		names = append(names, o.Kind+" "+o.Namespace+"/"+o.Name)
	}
	slices.Sort(names)
	return names
}

// claims are a class with a claim, a class without one, one of another Helm release that an
// operator has taken over, and the Secret of the user with our label.
func claims() []client.Object {
	labels := map[string]string{partLabel: partOf, instanceLabel: "openstack-manila"}
	class := &storagev1.StorageClass{Provisioner: shareDriver}
	class.Parameters = map[string]string{"type": "gold"}
	class.Name, class.Labels = "csi-manila-gold", labels
	unclaimed := class.DeepCopy()
	unclaimed.Name, unclaimed.Parameters["type"] = "csi-manila-silver", "silver"
	adopted := unclaimed.DeepCopy()
	adopted.Annotations = map[string]string{"meta.helm.sh/release-name": "manila-csi"}
	adopted.Name, adopted.Parameters["type"] = "csi-manila-nfs", "nfs"
	claim := &corev1.PersistentVolumeClaim{}
	claim.Namespace, claim.Name = "shop", "share"
	claim.Spec.StorageClassName, claim.Spec.VolumeName = &class.Name, manilaShare
	volume := &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: manilaShare}}
	volume.Spec.ClaimRef = &corev1.ObjectReference{Namespace: "shop", Name: "share"}
	volume.Spec.CSI = &corev1.CSIPersistentVolumeSource{
		Driver: shareDriver, VolumeHandle: "x",
		NodeStageSecretRef:   &corev1.SecretReference{Namespace: defaultNamespace, Name: loginOfShares},
		NodePublishSecretRef: &corev1.SecretReference{Namespace: defaultNamespace, Name: defaultSecret},
	}
	credentials := secret(defaultNamespace, defaultSecret, nil)
	credentials.Labels = labels
	mine := newObject("csi.openstack.org/v1alpha1", "ManilaDriver", "", "mine", labels)
	return []client.Object{class, unclaimed, adopted, claim, volume, credentials, mine}
}

func podOf(claim string) *corev1.Pod {
	pod := &corev1.Pod{}
	pod.Namespace, pod.Name, _ = strings.Cut(manilaPod, "/")
	pod.Spec.Volumes = []corev1.Volume{{Name: "v"}}
	source := corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim}
	pod.Spec.Volumes[0].PersistentVolumeClaim = &source
	return pod
}

func TestUninstallDeletesTheInstallationAndNothingElse(t *testing.T) {
	t.Parallel()
	files := manifests(t)
	for _, args := range []string{"", "manila", "cinder"} {
		t.Run(args, func(t *testing.T) {
			t.Parallel()
			c := newInstalledCluster(t, files, claims()...)
			dry := c.left()
			code, planned := c.uninstall(append(strings.Fields(args), "--dry-run")...)
			assert.Assert(t, code == exitOK, planned)
			assert.Assert(t, is.DeepEqual(dry, c.left()))
			var want []string
			for _, o := range c.all(t.Context()) {
				instance := o.Labels[instanceLabel]
				isOf := args == "" || instance == "openstack-"+args ||
					o.Kind == "Lease" && strings.Contains(o.Name, args)
				isKept := slices.Contains([]string{
					"StorageClass csi-manila-gold", "Secret openstack-credentials", "Namespace openstack-csi",
					"CustomResourceDefinition maniladrivers.csi.openstack.org", "ManilaDriver mine",
					"StorageClass csi-manila-nfs", "Secret csi-manila-secrets",
				}, o.Kind+" "+o.Name)
				isLease := o.Kind == "Lease" && !strings.HasPrefix(o.Name, "others-")
				if o.Labels[partLabel] != partOf && !isLease || !isOf || isKept {
					want = append(want, o.Kind+" "+o.Namespace+"/"+o.Name)
				}
			}
			slices.Sort(want)
			code, output := c.uninstall(strings.Fields(args)...)
			assert.Assert(t, code == exitOK, output)
			assert.Check(t, is.DeepEqual(want, c.left()))
			assert.Check(t, is.Equal(strings.ReplaceAll(planned, "Would delete", "Deleting"), output))
			for _, part := range map[string][]string{"": {
				"StorageClass csi-manila-gold stays: 1 claims name it", "Namespace openstack-csi stays: it " +
					"contains Secret openstack-credentials (1 PersistentVolumes name it), " +
					"Secret csi-manila-secrets (1 PersistentVolumes name it). If",
				"PersistentVolumes, claims", "the login",
				"Secret csi-manila-secrets stays: 1 PersistentVolumes name it in namespace openstack-csi",
				"CustomResourceDefinition maniladrivers.csi.openstack.org stays: there is ManilaDriver mine",
			}}[args] {
				assert.Check(t, strings.Contains(output, part), "%s: %s", part, output)
			}
		})
	}
}

func TestUninstallSaysThatTheNamespaceIsBeingDeleted(t *testing.T) {
	t.Parallel()
	files := manifests(t)
	for i := range files {
		if files[i].GetKind() == "Namespace" && files[i].GetName() == defaultNamespace {
			files[i].SetDeletionTimestamp(ptr.To(metav1.Now()))
			files[i].SetFinalizers([]string{"a/b"})
		}
	}
	_, output := newInstalledCluster(t, files, claims()...).uninstall()
	assert.Check(t, strings.Contains(output, "openstack-csi has been terminating for") &&
		!strings.Contains(output, "delete namespace"), output)
	_, output = newInstalledCluster(t, files, append(claims(), podOf("share"))...).uninstall()
	assert.Check(t, is.Contains(output, "stay. Nobody serves them: the driver ends: namespace"))
}

// A run that ends at any deletion, because of an error, is continued by the next one.
func TestUninstallContinues(t *testing.T) {
	t.Parallel()
	files := manifests(t)
	whole := newInstalledCluster(t, files)
	code, output := whole.uninstall()
	assert.Assert(t, code == exitOK, output)
	want := whole.left()
	for n := range whole.deleted {
		t.Run(whole.deleted[n], func(t *testing.T) {
			t.Parallel()
			c := newInstalledCluster(t, files)
			err := errors.New(`failed calling webhook "ab": Post "https://c.d.svc": service "c" not found`)
			c.before = func(i int, _ client.Object) error {
				if i == n {
					return err
				}
				return nil
			}
			code, output := c.uninstall()
			before := append(c.deleted[:n:n], "nothing")[0]
			assert.Assert(t, code == exitFailed && strings.Contains(output, "no Service c.d.svc any") &&
				strings.Contains(output, "Deleted before: "+before) &&
				strings.HasSuffix(output, "Run the command again to continue"), output)
			c.before = func(int, client.Object) error { return nil }
			code, output = c.uninstall()
			assert.Assert(t, code == exitOK, output)
			assert.Check(t, is.DeepEqual(want, c.left()))
		})
	}
}

// No operator is left that could create objects again, the node plugins end before the controllers,
// and definitions and namespaces go last.
func TestUninstallDeletesInAnOrder(t *testing.T) {
	t.Parallel()
	files := manifests(t)
	c := newInstalledCluster(t, files)
	code, output := c.uninstall()
	assert.Assert(t, code == exitOK, output)
	of := func(names ...string) (first, last int) {
		first = len(c.deleted)
		for i, name := range c.deleted {
			if slices.ContainsFunc(names, func(one string) bool { return strings.HasPrefix(name, one) }) {
				first, last = min(first, i), i
			}
		}
		return first, last
	}
	before := -1
	for _, group := range [][]string{
		{
			"Deployment manila-csi-driver-operator", "Deployment openstack-cinder-csi-driver-operator",
			"Deployment csi-addons",
		},
		{"StorageClass"},
		{"CSIDriver"},
		{"DaemonSet"},
		{"Deployment openstack-manila-csi-c", "Deployment openstack-cinder-csi-driver-controller"},
		{"Lease"},
		{"ManilaDriver", "CinderDriver"},
		{"CustomResource"},
		{"Namespace"},
	} {
		first, last := of(group...)
		assert.Check(t, first > before && last >= first, "%s come before others:\n%s", group, c.deleted)
		before = last
	}
}

// If a pod starts to use a volume at any moment, no other kind that volumes need is deleted.
func TestUninstallStopsWhenAPodStarts(t *testing.T) {
	t.Parallel()
	files := manifests(t)
	whole := newInstalledCluster(t, files, claims()...)
	code, output := whole.uninstall()
	assert.Assert(t, code == exitOK, output)
	last := slices.IndexFunc(whole.deleted, func(name string) bool {
		return strings.HasPrefix(name, "Lease ")
	})
	for n := range last {
		t.Run(whole.deleted[n], func(t *testing.T) {
			t.Parallel()
			c := newInstalledCluster(t, files, claims()...)
			kind, _, _ := strings.Cut(whole.deleted[n], " ")
			c.before = func(i int, o client.Object) error {
				if i == n {
					assert.NilError(t, c.Create(t.Context(), podOf("share")))
				}
				now := o.GetObjectKind().GroupVersionKind().Kind
				assert.Check(t, i <= n || now == kind || !slices.Contains(neededKinds(), now), now)
				return nil
			}
			code, output := c.uninstall()
			isLate := kind == "Deployment" && n > 3 // nothing follows that volumes need
			assert.Assert(t, isLate || code == exitFailed && strings.Contains(output, manilaPod), output)
			assert.NilError(t, c.Delete(t.Context(), podOf("share")))
			c.before = func(int, client.Object) error { return nil }
			code, output = c.uninstall()
			assert.Assert(t, code == exitOK, output)
			assert.Check(t, is.DeepEqual(whole.left(), c.left()))
		})
	}
}

func TestUninstallRefuses(t *testing.T) {
	t.Parallel()
	files := manifests(t)
	attachment := &storagev1.VolumeAttachment{}
	attachment.Name, attachment.Spec.Attacher = "csi-1", "cinder.csi.openstack.org"
	attachment.Spec.NodeName = "worker-1"
	attachment.Spec.Source.PersistentVolumeName = ptr.To("pvc-1")
	inline := podOf("")
	inline.Spec.Volumes[0] = corev1.Volume{Name: "v"}
	inline.Spec.Volumes[0].CSI = &corev1.CSIVolumeSource{Driver: shareDriver}
	fence := &v1alpha1.NetworkFence{Spec: v1alpha1.NetworkFenceSpec{Driver: shareDriver}}
	fence.Name, fence.Spec.FenceState = "dead-node", v1alpha1.Unfenced // not yet
	byClass := fence.DeepCopy()
	byClass.Spec.Driver, byClass.Spec.NetworkFenceClassName = "", "gone"
	marked := func(key, value string, isLabel bool) []client.Object {
		return append(managers(), managed(key, value, isLabel))
	}
	many := claims()
	for i := range 3000 {
		pod := podOf("share")
		pod.Name = fmt.Sprint("web-", i)
		many = append(many, pod)
	}
	infrastructure := &configv1.Infrastructure{ObjectMeta: metav1.ObjectMeta{Name: "cluster"}}
	for says, objects := range map[string][]client.Object{
		"this is OpenShift, whose":                        {infrastructure},
		"in use: claim shop/share (pod shop/web). Delete": append(claims(), podOf("share")),
		"volumes are in use: inline volumes (pod shop/w":  {inline},
		"web-1, shop/web-10 and 2997 more). Delete":       many,
		"VolumeAttachments exist: csi-1 to node worker-1": {attachment},
		"NetworkFences hold: dead-node. Set":              {fence},
		"fences hold: dead-node":                          {byClass},
		"Deployment manila-csi-driver-operator would be created again. Run first: helm uninstall " +
			"drivers --namespace=in. If": marked("meta.helm.sh/release-name", "drivers", false),
		"run first: flux delete kustomization drivers --namespace=in. If": marked(
			"kustomize.toolkit.fluxcd.io/name", "drivers", true),
		"run first: flux delete helmrelease drivers --namespace=in. If": marked(
			"helm.toolkit.fluxcd.io/name", "drivers", true),
		"run first: argocd app delete drivers. If": marked("argocd.argoproj.io/tracking-id",
			"drivers:apps/Deployment:openstack-csi/manila-csi-driver-operator", false),
		"Run first: kubectl delete subscription/drivers csv/drivers --namespace=in. If": marked(
			"olm.owner", "drivers", true),
	} {
		t.Run(strings.ReplaceAll(says, "/", "_"), func(t *testing.T) {
			t.Parallel()
			c := newInstalledCluster(t, files)
			for _, o := range objects {
				_ = c.WithWatch.Delete(t.Context(), o.DeepCopyObject().(client.Object))
				assert.NilError(t, c.Create(t.Context(), o.DeepCopyObject().(client.Object)))
			}
			c.deleted = nil
			code, output := c.uninstall()
			assert.Check(t, code == exitFailed && strings.Contains(strings.ToLower(output),
				strings.ToLower(says)) && strings.Contains(output, nothingChanged) && len(output) < 500,
				"exit code %d: %s", code, output)
			assert.Check(t, is.Len(c.deleted, 0))
		})
	}
}

// Who has made the objects is gone, or was ended, or cannot be read. Argo CD may be elsewhere.
func TestUninstallGoesOnWithoutAManager(t *testing.T) {
	t.Parallel()
	const release, argo = "meta.helm.sh/release-name", "argocd.argoproj.io/tracking-id"
	const unmark = "already, run: kubectl annotate deployment --all-namespaces " +
		"--selector=app.kubernetes.io/part-of=openstack-csi "
	files, all := manifests(t), managers()
	ended := all[len(all)-1].DeepCopyObject().(client.Object)
	ended.SetLabels(map[string]string{"owner": "helm", "name": "drivers", "status": "uninstalled"})
	again := ended.DeepCopyObject().(client.Object)
	again.SetName("again")
	again.SetLabels(map[string]string{"owner": "helm", "name": "drivers", "status": "deployed"})
	definitions := []client.Object{all[0], all[2], all[4], all[6]}
	for name, test := range map[string]struct {
		mark   string
		forged string
		more   []client.Object
		hidden bool
		says   string
	}{
		"release":                {mark: release},
		"release that has ended": {mark: release, more: []client.Object{ended}},
		"release that was installed again": {
			mark: release, more: []client.Object{ended, again}, says: "Run first: helm uninstall drivers",
		},
		"release that is hidden": {mark: release, hidden: true, says: unmark + release},
		"Kustomization":          {mark: "kustomize.toolkit.fluxcd.io/name", more: definitions},
		"Kustomization that is hidden": {
			mark: "kustomize.toolkit.fluxcd.io/name", more: definitions, hidden: true,
			says: unmark + "kustomize.toolkit.fluxcd.io/name-",
		},
		"HelmRelease":              {mark: "helm.toolkit.fluxcd.io/name", more: definitions},
		"HelmRelease without Flux": {mark: "helm.toolkit.fluxcd.io/name"},
		"ClusterServiceVersion":    {mark: "olm.owner", more: definitions},
		"Application":              {mark: argo, more: definitions},
		"command in a mark":        {mark: argo, forged: "x; reboot"},
		"Argo CD elsewhere":        {mark: argo, says: unmark + argo},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newInstalledCluster(t, files)
			o := managed(test.mark, cmp.Or(test.forged, "drivers:apps/Deployment:x/y"), false)
			_ = c.WithWatch.Delete(t.Context(), o.DeepCopyObject().(client.Object))
			for _, o := range append(test.more, o) {
				assert.NilError(t, c.Create(t.Context(), o.DeepCopyObject().(client.Object)))
			}
			c.deleted = nil
			c.WithWatch = interceptor.NewClient(c.WithWatch, interceptor.Funcs{List: func(
				ctx context.Context, w client.WithWatch, list client.ObjectList, by ...client.ListOption,
			) error {
				if in := (&client.ListOptions{}).ApplyOptions(by).Namespace; test.hidden && in == "in" {
					return apierrors.NewForbidden(schema.GroupResource{}, "", nil)
				}
				return w.List(ctx, list, by...)
			}})
			code, output := c.uninstall()
			assert.Check(t, (code == exitOK) == (test.says == "") && strings.Contains(output, test.says) &&
				(len(c.deleted) > 0) == (test.says == ""), "exit code %d: %s", code, output)
		})
	}
}

func TestUninstallSaysWhatItMayNotRead(t *testing.T) {
	t.Parallel()
	files := manifests(t)
	for _, kind := range kindsInTests() {
		c := newInstalledCluster(t, files)
		all := c.WithWatch
		c.WithWatch = interceptor.NewClient(all,
			(&scenario{Forbidden: []string{plural(kind.Kind)}}).refusals(all.Scheme()))
		code, output := c.uninstall()
		assert.Check(t, code == exitFailed && strings.Contains(output,
			"you may not read "+plural(kind.Kind)), "%s: %s", kind.Kind, output)
		assert.Check(t, is.Len(c.deleted, 0), kind.Kind)
	}
}
