package manila

import (
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	clocktesting "k8s.io/utils/clock/testing"

	opv1 "github.com/openshift/api/operator/v1"
	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/cluster/clustertest"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/plugin"
	"github.com/openstack-csi/csi-operator/pkg/settings"
)

// TestInputs finds each object that the operands mount among what rolls them out.
func TestInputs(t *testing.T) {
	t.Parallel()
	const hostedNamespace = "clusters-a"
	object := func(namespace, name string) metav1.ObjectMeta {
		return metav1.ObjectMeta{Namespace: namespace, Name: name}
	}
	both := []runtime.Object{
		&corev1.Secret{ObjectMeta: object(Namespace, "manila-cloud-credentials")},
		&corev1.ConfigMap{ObjectMeta: object(Namespace, "cloud-provider-config")},
	}
	for _, test := range []struct {
		flavour    flavour.Flavour
		controller []runtime.Object
	}{
		{flavour.Standalone, nil},
		{flavour.HyperShift, []runtime.Object{
			&corev1.Secret{ObjectMeta: object(hostedNamespace, "manila-cloud-credentials")},
			&corev1.ConfigMap{ObjectMeta: object(hostedNamespace, "openstack-cloud-config")},
		}},
	} {
		t.Run(string(test.flavour), func(t *testing.T) {
			t.Parallel()
			fake := clustertest.New(t, clustertest.Seed{
				Flavour: test.flavour, OperatorNamespace: hostedNamespace, DriverNamespace: Namespace,
				Guest: both, Controller: test.controller,
			})
			wiring, err := Driver().Wire(plugin.Surroundings{
				Cluster: fake.Cluster, Settings: &settings.Settings{},
				Events: events.NewInMemoryRecorder("test", clocktesting.NewFakePassiveClock(time.Unix(0, 0))),
			})
			if err != nil {
				t.Fatal(err)
			}
			fake.Start(t)
			var deployment appsv1.Deployment
			var daemonSet appsv1.DaemonSet
			for _, h := range wiring.Controller {
				if err := h.Deployment(&opv1.OperatorSpec{}, &deployment); err != nil {
					t.Fatal(err)
				}
			}
			for _, h := range wiring.Node {
				if err := h.DaemonSet(&opv1.OperatorSpec{}, &daemonSet); err != nil {
					t.Fatal(err)
				}
			}
			if n := len(deployment.Spec.Template.Annotations); n != 2 {
				t.Errorf("%d hashes on the Deployment, want credentials and CA: %v", n, deployment.Spec.Template.Annotations)
			}
			if n := len(daemonSet.Spec.Template.Annotations); n != 2 {
				t.Errorf("%d hashes on the DaemonSet, want credentials and CA: %v", n, daemonSet.Spec.Template.Annotations)
			}
		})
	}
}

func TestStaleConditions(t *testing.T) {
	t.Parallel()
	stale := staleConditions()
	for i, condition := range stale {
		if slices.Contains(stale[:i], condition) {
			t.Errorf("%s is there twice", condition)
		}
		if condition == "ManilaControllerDisabled" {
			t.Errorf("%s is this operator's own", condition)
		}
		if !slices.ContainsFunc([]string{"Disabled", "Degraded", "Available", "Progressing"}, func(s string) bool { return strings.HasSuffix(condition, s) }) {
			t.Errorf("%s lacks the suffix that library-go gives", condition)
		}
	}
	if !slices.Contains(stale, "CSIControllerDisabled") {
		t.Error("CSIControllerDisabled stays and hides the driver for ever")
	}
}
