package manila

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// Pods read their login and the CA at each call.
func TestCredentialsAreNoRolloutInputs(t *testing.T) {
	t.Parallel()
	object := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	guest := []runtime.Object{
		&corev1.Secret{ObjectMeta: object(Namespace, "manila-cloud-credentials")},
		&corev1.ConfigMap{ObjectMeta: object(Namespace, "cloud-provider-config")},
	}
	for f, controller := range map[flavour.Flavour][]runtime.Object{
		flavour.Standalone: nil,
		flavour.HyperShift: {
			&corev1.Secret{ObjectMeta: object(hosted, "manila-cloud-credentials")},
			&corev1.ConfigMap{ObjectMeta: object(hosted, "openstack-cloud-config")},
		},
	} {
		t.Run(string(f), func(t *testing.T) {
			t.Parallel()
			fake, s := dependenciesOf(t, seedWith(f, controller, guest))
			components, err := Driver().Setup(s)
			assert.NilError(t, err)
			fake.Start(t)
			var deployment appsv1.Deployment
			var daemonSet appsv1.DaemonSet
			var key hook.Key
			key.Set(make([]byte, hook.KeySize))
			none := fake.Side(flavour.Guest).ObjectInformers.For(Namespace, "none").Apps().V1()
			assert.NilError(t, hook.RollOutDeployment(&key, none.Deployments().Lister(), s.Events,
				components.ControllerHooks).Deployment(nil, &deployment))
			assert.NilError(t, hook.RollOutDaemonSet(&key, none.DaemonSets().Lister(), s.Events,
				components.NodeHooks).DaemonSet(nil, &daemonSet))
			for name, hashes := range map[string]map[string]string{
				"Deployment": deployment.Spec.Template.Annotations,
				"DaemonSet":  daemonSet.Spec.Template.Annotations,
			} {
				assert.Check(t, len(hashes) <= 0, "hashes on the %s are %v, want none", name, hashes)
			}
		})
	}
}

func TestSettingLimitsAccessRulesOfShares(t *testing.T) {
	t.Parallel()
	for limit, want := range map[int][]string{0: {"-a"}, 128: {"-a", "--max-access-rules=128"}} {
		_, s := dependenciesOf(t, seedWith(flavour.Standalone, nil, nil))
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
		if diff := cmp.Diff(want, containers[1].Args); diff != "" || len(containers[0].Args) != 1 {
			t.Errorf("arguments with the limit %d (-want +got):\n%s", limit, diff)
		}
	}
}

// TestLeaseHasNameOfEarlierOperator: OpenShift's csi-operator uses the same Lease, so only one of
// the two is active during an upgrade or a rollback.
func TestLeaseHasNameOfEarlierOperator(t *testing.T) {
	t.Parallel()
	assert.Check(t, is.Equal(Driver().Component, "openstack-manila-csi-driver-operator"),
		"the operator leads as")
}
