package operator

import (
	"testing"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/choice"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/test/clustertest"
)

func choices(text string) *corev1.ConfigMap {
	return &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Namespace: "openshift-config", Name: "cinder-csi-config"},
		Data:       map[string]string{"operator.yaml": text},
	}
}

func setUpChoices(d plugin.Dependencies) (plugin.Components, error) {
	choices := plugin.NewChoices(d.Cluster, "cinder-csi-config", choice.Cinder)
	return plugin.Components{Choices: choices}, nil
}

// This includes the workload of a companion driver.
func TestInvalidChoicesAtStartLeaveEveryWorkloadUnchanged(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{
		Guest:  []runtime.Object{choices("x: y\n")},
		Config: infrastructure(flavour.Standalone),
	})
	all := plugins()
	all[0].Setup = setUpChoices
	drivers := assembledIn(t, f, all...)
	setSpec(t, f.State, opv1.OperatorSpec{
		ManagementState: opv1.Managed,
		ObservedConfig:  runtime.RawExtension{Raw: []byte(observedConfig)},
	})
	f.Start(t)
	want := "the workload stays unchanged: the administrator's configuration is invalid: correct " +
		"key operator.yaml of ConfigMap openshift-config/cinder-csi-config"
	controllers := built(t, drivers)[workloads]
	assert.Assert(t, is.Len(controllers, 3))
	for _, c := range controllers {
		assert.Check(t, is.ErrorContains(syncOnce(t, drivers[0], c), want), c.Name())
	}
}
