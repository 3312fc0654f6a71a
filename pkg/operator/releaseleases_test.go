package operator

import (
	"cmp"
	"errors"
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	appslisters "k8s.io/client-go/listers/apps/v1"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/client-go/tools/cache"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

// Earlier sidecars do not start with the feature gate.
func TestOnlySidecarsThatKnowTheGateReleaseTheirLeases(t *testing.T) {
	t.Parallel()
	const image, other = "quay.io/release@sha256:1", "example.com/other@sha256:1"
	with := func(image string, arguments ...string) *appsv1.Deployment {
		d := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "b"}}
		d.Spec.Template.Spec.Containers = []corev1.Container{
			{Name: "csi-driver", Image: other}, {Name: "csi-resizer", Image: image, Args: arguments},
		}
		return d
	}
	for name, tt := range map[string]struct {
		flavour        flavour.Flavour
		release, image string
		deployed       *appsv1.Deployment
		choice         string
		want           bool
	}{
		"4.20":                      {release: "4.20.9"},
		"a candidate of 4.21":       {release: "4.21.0-rc.1", want: true},
		"5.0":                       {release: "5.0.0", want: true},
		"a build":                   {release: "0.0.1-snapshot"},
		"unknown":                   {deployed: with(image)},
		"known before":              {deployed: with(image, releaseGate), want: true},
		"known of another image":    {deployed: with(image+"2", releaseGate)},
		"4.20, although it has it":  {release: "4.20.9", deployed: with(image, releaseGate)},
		"a replaced image":          {release: "4.22.0", image: other},
		"an image without a digest": {release: "4.22.0", image: "quay.io/release:4.22"},
		"Auto":                      {release: "4.22.0", choice: "Auto", want: true},
		"chosen":                    {image: other, choice: "true", want: true},
		"chosen not":                {release: "4.22.0", choice: "false"},
		"HyperShift 4.21":           {flavour: flavour.HyperShift, release: "4.21.9"},
		"HyperShift 4.22":           {flavour: flavour.HyperShift, release: "4.22.1", want: true},
	} {
		f := cmp.Or(tt.flavour, flavour.Standalone)
		d := leasesIn(t, f, tt.choice)
		d.settings.Images[bundle.NodeDriverRegistrarImage] = "quay.io/release@sha256:2"
		wanted := with(cmp.Or(tt.image, image))
		if d.release = tt.release; f == flavour.HyperShift {
			d.release = ""
			wanted.Annotations = map[string]string{hook.DesiredVersionAnnotation: tt.release}
		}
		deployments := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
		if tt.deployed != nil {
			assert.NilError(t, deployments.Add(tt.deployed))
		}
		h := d.releaseLeasesHook(appslisters.NewDeploymentLister(deployments))
		assert.NilError(t, h.Deployment(nil, wanted))
		containers := wanted.Spec.Template.Spec.Containers
		assert.Check(t, is.Len(containers[0].Args, 0), "the driver has no Lease")
		assert.Check(t, is.Equal(slices.Contains(containers[1].Args, releaseGate), tt.want), name)
	}
}

// leasesIn returns a driver of OpenShift with a choice about the Leases.
func leasesIn(t *testing.T, f flavour.Flavour, choice string) *driver {
	t.Helper()
	p := plugins()[0]
	p.Setup = setUpChoices
	seed := clustertest.Seed{Flavour: f}
	if choice != "" {
		seed.Guest = []runtime.Object{choices("apiVersion: config.csi.openstack.org/v1alpha1\n" +
			"kind: CinderConfig\nsidecars: {releaseLeases: " + choice + "}\n")}
	}
	fake := clustertest.New(t, seed)
	d := assembledIn(t, fake, p)[0]
	d.settings.ReleaseVersion = ""
	fake.Start(t)
	return d
}

func TestReleaseOfOpenShiftIsReadOnlyWithPermission(t *testing.T) {
	t.Parallel()
	updated := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "openshift-machine-config-operator", Name: "machine-config-osimageurl",
		},
		Data: map[string]string{"releaseVersion": "4.21.3"},
	}
	for allowed, want := range map[bool]string{false: "", true: "4.21.3"} {
		fake := clustertest.New(t, clustertest.Seed{Guest: []runtime.Object{updated}})
		fake.Guest.PrependReactor("create", "selfsubjectaccessreviews",
			func(clienttesting.Action) (bool, runtime.Object, error) {
				return true, &authorizationv1.SelfSubjectAccessReview{
					Status: authorizationv1.SubjectAccessReviewStatus{Allowed: allowed},
				}, nil
			})
		if !allowed {
			refuse(&fake.Guest.Fake, "get", "*", errors.New("refused"))
		}
		d := assembledIn(t, fake, plugins()...)[0]
		assert.Check(t, is.Equal(d.releaseOfOpenShift(t.Context()), want))
		d.settings.ClusterID = "kubernetes"
		assert.Check(t, is.Equal(d.releaseOfOpenShift(t.Context()), ""), "another cluster")
	}
}
