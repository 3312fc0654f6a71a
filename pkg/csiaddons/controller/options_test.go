package controller

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gotest.tools/v3/assert"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/events"
)

func someOptions() Options {
	return Options{ReclaimSpaceTimeout: time.Minute, MaxConcurrent: 1, NodeRetryDelay: 1}
}

func TestConfigMapReplacesOptionsOfFlags(t *testing.T) {
	t.Parallel()
	got, warnings := someOptions().with(map[string]string{
		"reclaim-space-timeout": "5m", "csi-addons-node-retry-delay": "9",
		"schedule-precedence": "sc-only", "cronjob-stagger-window": "3", "min-schedule-interval": "1h",
		"max-group-pvcs": "100",
	})
	want := Options{
		ReclaimSpaceTimeout: 5 * time.Minute, MaxConcurrent: 1, NodeRetryDelay: 9,
		Precedence: "sc-only", MinInterval: time.Hour, StaggerWindow: 3,
	}
	if diff := cmp.Diff(want, got); diff != "" || len(warnings) > 0 || !got.classOnly() {
		t.Errorf("options with the warnings %v (-want +got):\n%s", warnings, diff)
	}
	got, warnings = want.with(map[string]string{
		"colour": "blue", "reclaim-space-timeout": "never", "max-concurrent-reconciles": "0",
		"csi-addons-node-retry-delay": "9999999999", "schedule-precedence": "x",
	})
	if diff := cmp.Diff(want, got); diff != "" || len(warnings) != 5 {
		t.Errorf("options with the warnings %q (-want +got):\n%s", warnings, diff)
	}
}

// A ConfigMap that is invalid must not end the controller: it would end again and again.
func TestOnlyOtherValidOptionsEndTheController(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		data         map[string]string
		ends, warned bool
	}{
		"no data":             {nil, false, false},
		"the same":            {map[string]string{"reclaim-space-timeout": "60s"}, false, false},
		"another":             {map[string]string{"reclaim-space-timeout": "2m"}, true, false},
		"another and invalid": {map[string]string{"reclaim-space-timeout": "2m", "a": "b"}, false, true},
	} {
		p := newPreflight(t, func(string) error { return nil })
		ended, recorder := false, events.NewFakeRecorder(2)
		p.events, p.restart = recorder, func() { ended = true }
		p.settings.Options = someOptions()
		assert.NilError(t, p.await(t.Context()))
		assert.NilError(t, p.client.Create(t.Context(), &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: "own", Name: ConfigMap}, Data: one.data,
		}))
		for range 2 { // an unchanged ConfigMap causes one event
			assert.NilError(t, p.checkOptions(t.Context()))
		}
		if warned := len(recorder.Events) == 1; ended != one.ends || warned != one.warned {
			t.Errorf("%s: the controller ends: %t, want %t; it warns: %t, want %t", name, ended, one.ends,
				warned, one.warned)
		}
	}
}
