package hook_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/openshift/library-go/pkg/operator/events"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster/clustertest"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/hook"
)

// TestExplanation goes through the life of an input: absent, come, changed, gone.
func TestExplanation(t *testing.T) {
	t.Parallel()
	f := clustertest.New(t, clustertest.Seed{Flavour: flavour.Standalone, OperatorNamespace: hosted, DriverNamespace: guest})
	recorder := events.NewInMemoryRecorder("test", clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
	inputs := []hook.Workload{
		hook.SecretHash(f.Cluster, bundle.Controller, "credentials"),
		hook.ConfigMapHash(f.Cluster, bundle.Controller, "conf"),
		hook.ObservedProxy(),
	}
	explain := hook.ExplainDeployment(f.Cluster, recorder, inputs)
	f.Start(t)

	deployed, _ := workloads()
	deployed.Namespace, deployed.Name = guest, "driver"
	// sync explains a fresh manifest until the list is as wanted, and puts the result into the cluster.
	sync := func(want string) {
		t.Helper()
		var list string
		err := wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true, func(ctx context.Context) (bool, error) {
			fresh, _ := workloads()
			fresh.Namespace, fresh.Name = guest, "driver"
			if err := explain.Deployment(nil, fresh); err != nil {
				return false, err
			}
			list = fresh.Annotations[hook.InputsAnnotation]
			if len(fresh.Spec.Template.Annotations) > 0 {
				t.Error("the annotation would roll out the pods")
			}
			if strings.Contains(list, "secret/credentials=absent") != strings.Contains(want, "secret/credentials=absent") || list == deployed.Annotations[hook.InputsAnnotation] {
				return false, nil
			}
			deployed = fresh
			return true, ctx.Err()
		})
		if err != nil {
			t.Fatalf("the annotation is %q, want %q: %v", list, want, err)
		}
		// More syncs before the cache has caught up make no more events.
		again, _ := workloads()
		again.Namespace, again.Name = guest, "driver"
		if err := explain.Deployment(nil, again); err != nil {
			t.Fatal(err)
		}
		apps := f.Guest.AppsV1().Deployments(guest)
		if _, err := apps.Update(t.Context(), deployed, metav1.UpdateOptions{}); err != nil {
			if _, err := apps.Create(t.Context(), deployed, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		lister := f.Side(bundle.Controller).Informers.InformersFor(guest).Apps().V1().Deployments().Lister().Deployments(guest)
		err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
			cached, err := lister.Get("driver")
			return err == nil && cached.Annotations[hook.InputsAnnotation] == deployed.Annotations[hook.InputsAnnotation], nil
		})
		if err != nil {
			t.Fatal("the cache does not hear of the Deployment")
		}
	}
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: guest, Name: "credentials"}, Data: map[string][]byte{"k": []byte("1")}}
	secrets := f.Guest.CoreV1().Secrets(guest)

	sync("configmap/conf=absent,secret/credentials=absent")
	if list := deployed.Annotations[hook.InputsAnnotation]; list != "configmap/conf=absent,secret/credentials=absent" {
		t.Errorf("with no inputs the annotation is %q", list)
	}
	if _, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	sync("a hash")
	secret.Data["k"] = []byte("2")
	if _, err := secrets.Update(t.Context(), secret, metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	sync("another hash")
	if err := secrets.Delete(t.Context(), "credentials", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	sync("secret/credentials=absent")

	var got []string
	for _, event := range recorder.Events() {
		got = append(got, event.Reason+": "+event.Message)
	}
	const rollsOut = "RolloutInputChanged: Deployment openshift-x/driver rolls out: secret/credentials "
	if want := []string{rollsOut + "has come", rollsOut + "has changed", rollsOut + "is gone"}; !slices.Equal(got, want) {
		t.Errorf("events:\n%s\nwant:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
