package diagnosis_test

import (
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/diagnosis"
)

func TestSnapshotIsIgnoredIfNoControllerHasChangedIt(t *testing.T) {
	t.Parallel()
	created := time.Unix(1000, 0)
	status := []metav1.ManagedFieldsEntry{{Manager: "kubectl"}, {Manager: "x", Subresource: "status"}}
	for name, test := range map[string]struct {
		age        time.Duration
		finalizers []string
		fields     []metav1.ManagedFieldsEntry
		want       bool
	}{
		"new":        {age: diagnosis.SnapshotGrace},
		"old":        {age: diagnosis.SnapshotGrace + 1, fields: status[:1], want: true},
		"of backups": {age: time.Hour, finalizers: []string{"example.com/backup"}, want: true},
		"protected": {
			age:        time.Hour,
			finalizers: []string{"snapshot.storage.kubernetes.io/volumesnapshot-as-source-protection"},
		},
		"with an unknown class": {age: time.Hour, fields: status},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			snapshot := &metav1.ObjectMeta{
				CreationTimestamp: metav1.NewTime(created), Finalizers: test.finalizers,
				ManagedFields: test.fields,
			}
			assert.Check(t, is.Equal(diagnosis.IsIgnored(snapshot, created.Add(test.age)), test.want))
		})
	}
}
