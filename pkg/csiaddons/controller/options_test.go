package controller

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

// A ConfigMap that is invalid must not end the controller: it would end again and again.
func TestOnlyOtherValidOptionsEndTheController(t *testing.T) {
	t.Parallel()
	flags := Options{
		ReclaimSpaceTimeout: time.Minute, MaxConcurrent: 1, NodeRetryDelay: time.Second,
		Precedence: ClaimFirst,
	}
	for name, one := range map[string]struct {
		data         map[string]string
		ends, warned bool
	}{
		"no ConfigMap":        {nil, false, false},
		"the same":            {map[string]string{"reclaim-space-timeout": "60s"}, false, false},
		"another":             {map[string]string{"reclaim-space-timeout": "2m"}, true, false},
		"invalid":             {map[string]string{"reclaim-space-timeout": "never"}, false, true},
		"another and invalid": {map[string]string{"reclaim-space-timeout": "2m", "a": "b"}, false, true},
	} {
		objects := fake.NewClientBuilder()
		if one.data != nil {
			objects.WithObjects(&corev1.ConfigMap{
				ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: ConfigMap}, Data: one.data,
			})
		}
		ended, recorder := false, events.NewFakeRecorder(1)
		r := &optionsReconciler{
			client: objects.Build(), flags: flags, running: flags, namespace: "own", events: recorder,
			end: func() { ended = true },
		}
		request := reconcile.Request{NamespacedName: client.ObjectKey{Namespace: "own", Name: ConfigMap}}
		if _, err := r.Reconcile(t.Context(), request); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if warned := len(recorder.Events) > 0; ended != one.ends || warned != one.warned {
			t.Errorf("%s: the controller ends: %t, want %t; it warns: %t, want %t", name, ended, one.ends,
				warned, one.warned)
		}
	}
}
