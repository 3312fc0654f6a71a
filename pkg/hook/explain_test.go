package hook_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
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
	deployments := f.Side(bundle.Controller).Named.For(guest, "driver").Apps().V1().Deployments().Lister()
	explain := hook.ExplainDeployment(deployments, recorder, inputs)
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
		err = wait.PollUntilContextTimeout(t.Context(), time.Millisecond, 30*time.Second, true, func(context.Context) (bool, error) {
			cached, err := deployments.Deployments(guest).Get("driver")
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

// TestDaemonSetExplanation is about the guest's side: its inputs, its DaemonSet, its event.
func TestDaemonSetExplanation(t *testing.T) {
	t.Parallel()
	secret := func(namespace, value string) *corev1.Secret {
		return &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "credentials"}, Data: map[string][]byte{"k": []byte(value)}}
	}
	for name, test := range map[string]struct {
		// deployed is the DaemonSet's annotation in the cluster; nil is no DaemonSet.
		deployed map[string]string
		want     []string
	}{
		"new":                      {nil, nil},
		"never explained":          {map[string]string{}, nil},
		"explained by another run": {map[string]string{hook.InputsAnnotation: "secret/credentials=other"}, []string{"secret/credentials has changed"}},
		"without the input":        {map[string]string{hook.InputsAnnotation: "secret/credentials=absent"}, []string{"secret/credentials has come"}},
		"with another input":       {map[string]string{hook.InputsAnnotation: "configmap/conf=x"}, []string{"secret/credentials has come"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, deployed := workloads()
			deployed.Namespace, deployed.Name, deployed.Annotations = guest, "driver", test.deployed
			seed := clustertest.Seed{
				Flavour: flavour.HyperShift, OperatorNamespace: hosted, DriverNamespace: guest,
				Guest: []runtime.Object{secret(guest, "1")}, Controller: []runtime.Object{secret(hosted, "2")},
			}
			if test.deployed != nil {
				seed.Guest = append(seed.Guest, deployed)
			}
			f := clustertest.New(t, seed)
			recorder := events.NewInMemoryRecorder("test", clocktesting.NewFakePassiveClock(time.Unix(0, 0)))
			daemonSets := f.Side(bundle.Guest).Named.For(guest, "driver").Apps().V1().DaemonSets().Lister()
			deployments := f.Side(bundle.Controller).Named.For(hosted, "driver").Apps().V1().Deployments().Lister()
			explain := hook.ExplainDaemonSet(daemonSets, recorder, []hook.Workload{hook.SecretHash(f.Cluster, bundle.Guest, "credentials")})
			hosting := hook.ExplainDeployment(deployments, recorder, []hook.Workload{hook.SecretHash(f.Cluster, bundle.Controller, "credentials")})
			f.Start(t)
			deployment, daemonSet := workloads()
			deployment.Namespace, deployment.Name = hosted, "driver"
			daemonSet.Namespace, daemonSet.Name = guest, "driver"
			daemonSet.Annotations = nil // they share one map
			for range 2 {               // the second time the cache is as old, and there is nothing more to say
				if err := explain.DaemonSet(nil, daemonSet); err != nil {
					t.Fatal(err)
				}
			}
			if err := hosting.Deployment(nil, deployment); err != nil {
				t.Fatal(err)
			}
			list, other := daemonSet.Annotations[hook.InputsAnnotation], deployment.Annotations[hook.InputsAnnotation]
			if !strings.HasPrefix(list, "secret/credentials=") || len(list) > len("secret/credentials=")+8 || list == other {
				t.Errorf("the DaemonSet lists %q, the Deployment %q; want a short hash of each side's own Secret", list, other)
			}
			if len(daemonSet.Spec.Template.Annotations) > 0 || explain.Deployment != nil {
				t.Error("the explanation goes further than the DaemonSet itself")
			}
			var got []string
			for _, event := range recorder.Events() {
				got = append(got, strings.TrimPrefix(event.Reason+": "+event.Message, "RolloutInputChanged: DaemonSet "+guest+"/driver rolls out: "))
			}
			if !slices.Equal(got, test.want) {
				t.Errorf("events are %q, want %q", got, test.want)
			}
		})
	}
}
