package manila

import (
	"slices"
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/yaml"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/controller/factory"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/clouds"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
	"github.com/openstack-csi/csi-operator/test/clustertest"
	"github.com/openstack-csi/csi-operator/test/plugintest"
)

// Pods read their login and the CA at each call.
func TestCredentialsAreNoRolloutInputs(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.All() {
		_, s := dependenciesOf(t, clustertest.Seed{Flavour: f})
		plugintest.Check(t, Driver(), s)
		components, err := Driver().Setup(s)
		assert.NilError(t, err)
		for _, h := range slices.Concat(components.ControllerHooks, components.NodeHooks) {
			assert.Check(t, is.Len(h.RolloutInputs, 0), "%s", f)
		}
	}
}

func TestSettingLimitsAccessRulesOfShares(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int][]string{0: {"-a"}, 128: {"-a", "--max-access-rules=128"}} {
		_, s := dependencies(t)
		s.Settings.CSIAddons.MaxAccessRules = limit
		components, err := Driver().Setup(s)
		assert.NilError(t, err)
		changes, _ := hook.DeploymentHooks(components.ControllerHooks)
		deployment := &appsv1.Deployment{}
		deployment.Spec.Template.Spec.Containers = []corev1.Container{
			{Name: "csi-driver", Args: []string{"-b"}},
			{Name: "openstack-csi-addons", Args: []string{"-a"}},
		}
		for _, change := range changes {
			assert.NilError(t, change(nil, deployment))
		}
		containers := deployment.Spec.Template.Spec.Containers
		assert.Check(t, is.DeepEqual(want, containers[1].Args), "limit %d", limit)
		assert.Check(t, is.Len(containers[0].Args, 1), "limit %d", limit)
	}
}

// OpenShift's csi-operator uses the same Lease, so only one of the two is active during an upgrade
// or a rollback. VolumeSnapshotClasses name the Secret that the operator writes.
func TestNamesThatOthersUse(t *testing.T) {
	t.Parallel()
	assert.Check(t, is.Equal(Driver().Component, "openstack-manila-csi-driver-operator"), "Lease")
	for _, f := range flavour.All() {
		loaded, err := bundle.Load(Driver().Assets, f)
		assert.NilError(t, err)
		snapshots := loaded.Select(bundle.SnapshotClass, flavour.Guest)
		assert.Assert(t, is.Len(snapshots, 1))
		var class struct {
			Driver     string
			Parameters map[string]string
		}
		assert.NilError(t, yaml.Unmarshal(snapshots[0].Data, &class))
		const key = "csi.storage.k8s.io/snapshotter-secret-"
		assert.Check(t, is.Equal(class.Driver, map[flavour.Flavour]string{
			flavour.Standalone: "manila.csi.openstack.org", flavour.HyperShift: "manila.csi.openstack.org",
			flavour.Kubernetes: "nfs.manila.csi.openstack.org",
		}[f]))
		assert.Check(t, is.Equal(class.Parameters[key+"name"], loginSecret))
		assert.Check(t, is.Contains([]string{"${NODE_NAMESPACE}", Namespace},
			class.Parameters[key+"namespace"]))
	}
}

func TestUnmanagedOperatorWritesNothing(t *testing.T) {
	t.Parallel()
	for _, state := range []opv1.ManagementState{opv1.Unmanaged, opv1.Removed} {
		fake, s := dependencies(t, sourceOf(flavour.Standalone, map[string]string{"ca-bundle.pem": "A"}),
			wanted("csi-manila-gone", "gone"))
		credentials := &clustertest.Credentials{Read: func() (clouds.Content, error) {
			data := map[string][]byte{clouds.Key: []byte(cloudsYAML(aCloud))}
			return clouds.Content{Data: data}, nil
		}}
		classes := newClasses(s)
		classes.list([]string{"a"})
		controllers := []factory.Controller{
			newSecretSyncController(s, credentials), newCACopier(s), classes,
		}
		fake.Start(t)
		fake.State.Set(t, csiDriver(state, opv1.RemovedStorageClass))
		for _, c := range controllers {
			assert.NilError(t, c.Sync(t.Context(), factory.NewSyncContext("test", s.Events)))
			assert.Check(t, is.Len(clustertest.Writes(fake.Guest), 0), "%s, %s", c.Name(), state)
		}
	}
}
