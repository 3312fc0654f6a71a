package operator

import (
	"cmp"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

const (
	leasesOfOpenShift = "--leader-election-lease-duration=137s " +
		"--leader-election-renew-deadline=107s --leader-election-retry-period=26s"
	leasesOfKubernetes = "--leader-election-lease-duration=15s " +
		"--leader-election-renew-deadline=10s --leader-election-retry-period=5s"
	gate = " " + releaseGate
)

func TestSidecarsGetTheLeasesOfTheirCluster(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		flavour  flavour.Flavour
		releases *bool
		want     string
	}{
		"OpenShift":                   {flavour.Standalone, nil, leasesOfOpenShift},
		"HyperShift that releases":    {flavour.HyperShift, new(true), leasesOfOpenShift + gate},
		"Kubernetes":                  {flavour.Kubernetes, nil, leasesOfKubernetes + gate},
		"Kubernetes without releases": {flavour.Kubernetes, new(false), leasesOfKubernetes},
	} {
		for _, p := range []plugin.Driver{plugins()[0], cinderPlugin()} {
			fake := clustertest.New(t, clustertest.Seed{
				Flavour: tt.flavour, Config: infrastructure(tt.flavour),
			})
			d := assembledIn(t, fake, p)[0]
			fake.Start(t)
			d.settings.ReleaseLeases = tt.releases
			want := map[string]string{
				"csi-provisioner": tt.want, "csi-resizer": tt.want, "csi-snapshotter": tt.want,
			}
			if d.csiDriver == string(opv1.CinderCSIDriver) {
				want["csi-attacher"] = tt.want
			}
			got := leaseArguments(rendered(t, d))
			assert.Check(t, is.DeepEqual(want, got), "arguments about Leases, %s, %s", d.csiDriver, name)
		}
	}
}

// rendered returns the Deployment after the hooks about Leases.
func rendered(t *testing.T, d *driver) *appsv1.Deployment {
	t.Helper()
	asset, _, err := d.workload(bundle.ControllerWorkload, flavour.ControlPlane)
	assert.NilError(t, err)
	spec := &opv1.OperatorSpec{}
	spec.ObservedConfig.Raw = []byte(observedConfig)
	text := asset.Data
	for _, fill := range hook.Manifest(d.cluster) {
		text, err = fill(spec, text)
		assert.NilError(t, err)
	}
	deployment := &appsv1.Deployment{}
	assert.NilError(t, yaml.UnmarshalStrict(text, deployment))
	none := func() *appsv1.Deployment { return nil }
	changes, _ := hook.DeploymentHooks(d.sidecarHooks(none))
	for _, change := range changes {
		assert.NilError(t, change(spec, deployment))
	}
	return deployment
}

// leaseArguments returns the arguments of each sidecar about its Lease.
func leaseArguments(d *appsv1.Deployment) map[string]string {
	about := regexp.MustCompile(`^--(leader-election-(lease|renew|retry)-|feature-gates)`)
	found := map[string]string{}
	for _, c := range d.Spec.Template.Spec.Containers {
		arguments := slices.DeleteFunc(slices.Clone(c.Args), func(argument string) bool {
			return !about.MatchString(argument)
		})
		if len(arguments) > 0 {
			found[c.Name] = strings.Join(arguments, " ")
		}
	}
	return found
}

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
		"chosen":                    {image: other, choice: "Always", want: true},
		"chosen not":                {release: "4.22.0", choice: "Never"},
		"HyperShift 4.21":           {flavour: flavour.HyperShift, release: "4.21.9"},
		"HyperShift 4.22":           {flavour: flavour.HyperShift, release: "4.22.1", want: true},
		"Kubernetes":                {flavour: flavour.Kubernetes, image: other, want: true},
		"Kubernetes, chosen not":    {flavour: flavour.Kubernetes, image: other, choice: "Never"},
	} {
		f := cmp.Or(tt.flavour, flavour.Standalone)
		d := leasesIn(t, f, tt.choice)
		d.settings.Images[bundle.NodeDriverRegistrarImage] = "quay.io/release@sha256:2"
		wanted := with(cmp.Or(tt.image, image))
		if d.release = tt.release; f == flavour.HyperShift {
			d.release = ""
			wanted.Annotations = map[string]string{hook.DesiredVersionAnnotation: tt.release}
		}
		h := d.releaseLeasesHook(func() *appsv1.Deployment { return tt.deployed })
		assert.NilError(t, h.Deployment(nil, wanted))
		containers := wanted.Spec.Template.Spec.Containers
		assert.Check(t, is.Len(containers[0].Args, 0), "the driver has no Lease")
		assert.Check(t, is.Equal(slices.Contains(containers[1].Args, releaseGate), tt.want), name)
	}
}

// leasesIn returns a driver with a choice about the Leases.
func leasesIn(t *testing.T, f flavour.Flavour, choice string) *driver {
	t.Helper()
	p := plugins()[0]
	p.Setup = setUpChoices
	seed := clustertest.Seed{Flavour: f}
	if chosen := "sidecars: {releaseLeases: " + choice + "}\n"; choice != "" {
		seed.Spec = chosen
		seed.Guest = []runtime.Object{choices("apiVersion: config.csi.openstack.org/v1alpha1\n" +
			"kind: CinderConfig\n" + chosen)}
	}
	fake := clustertest.New(t, seed)
	d := assembledIn(t, fake, p)[0]
	d.settings.ReleaseVersion = ""
	fake.Start(t)
	return d
}

// The resizer has another name for the number of its workers.
func TestSidecarsAndDriverGetWhatIsChosen(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{Flavour: flavour.Kubernetes, Spec: `
claimAnnotations: true
sidecars: {timeout: 4m, workers: 20, kubeAPIQPS: 10, kubeAPIBurst: 30}
`})
	p := cinderPlugin()
	p.Setup = setUpChoices
	d := assembledIn(t, f, p)[0]
	f.Start(t)
	requests := []string{"--kube-api-qps=10", "--kube-api-burst=30"}
	workers := append([]string{"--timeout=4m", "--worker-threads=20"}, requests...)
	want := map[string][]string{
		"csi-driver":      {"--pvc-annotations"},
		"csi-provisioner": append([]string{"--extra-create-metadata"}, workers...),
		"csi-attacher":    workers, "csi-snapshotter": workers,
		"csi-resizer": append([]string{"--timeout=4m", "--workers=20"}, requests...),
		"other":       nil,
	}
	deployment := &appsv1.Deployment{}
	for name := range want {
		deployment.Spec.Template.Spec.Containers = append(deployment.Spec.Template.Spec.Containers,
			corev1.Container{Name: name})
	}
	d.settings.ReleaseLeases = new(false)
	for _, h := range d.sidecarHooks(func() *appsv1.Deployment { return nil }) {
		assert.NilError(t, h.Deployment(nil, deployment))
	}
	for _, c := range deployment.Spec.Template.Spec.Containers {
		assert.Check(t, is.DeepEqual(want[c.Name], c.Args), c.Name)
	}
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
		d.settings.ReleaseLeases = new(true)
		assert.Check(t, is.Equal(d.releaseOfOpenShift(t.Context()), ""), "nobody needs it")
	}
}
