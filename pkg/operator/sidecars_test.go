package operator

import (
	"regexp"
	"slices"
	"strings"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
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
		flavour   flavour.Flavour
		clusterID string
		releases  *bool
		want      string
	}{
		"OpenShift":                   {flavour.Standalone, "", nil, leasesOfOpenShift},
		"HyperShift that releases":    {flavour.HyperShift, "", new(true), leasesOfOpenShift + gate},
		"Kubernetes that releases":    {flavour.Standalone, "a", new(true), leasesOfKubernetes + gate},
		"Kubernetes without releases": {flavour.Standalone, "a", new(false), leasesOfKubernetes},
	} {
		for _, p := range []plugin.Driver{plugins()[0], cinderPlugin()} {
			fake := clustertest.New(t, clustertest.Seed{
				Flavour: tt.flavour, Config: infrastructure(tt.flavour),
			})
			d := assembledIn(t, fake, p)[0]
			fake.Start(t)
			d.settings.ClusterID, d.settings.ReleaseLeases = tt.clusterID, tt.releases
			want := map[string]string{
				"csi-provisioner": tt.want, "csi-resizer": tt.want, "csi-snapshotter": tt.want,
			}
			if p.Name == opv1.CinderCSIDriver {
				want["csi-attacher"] = tt.want
			}
			got := leaseArguments(rendered(t, d))
			assert.Check(t, is.DeepEqual(want, got), "arguments about Leases, %s, %s", p.Name, name)
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
	for _, fill := range hook.Manifest(d.cluster, d.leaderElection()) {
		text, err = fill(spec, text)
		assert.NilError(t, err)
	}
	deployment := &appsv1.Deployment{}
	assert.NilError(t, yaml.UnmarshalStrict(text, deployment))
	deployments := d.cluster.Side(flavour.ControlPlane).ObjectInformers.
		For(deployment.Namespace, deployment.Name).Apps().V1().Deployments().Lister()
	changes, _ := hook.DeploymentHooks(d.sidecarHooks(deployments))
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
