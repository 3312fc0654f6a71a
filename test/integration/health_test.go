//go:build integration

package integration

import (
	"fmt"
	"strings"
	"testing"

	gophershares "github.com/gophercloud/gophercloud/v2/openstack/sharedfilesystems/v2/shares"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	opv1 "github.com/openshift/api/operator/v1"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	cloudadmin "github.com/openstack-csi/csi-operator/test/openstack/administrator"
	"github.com/openstack-csi/csi-operator/test/openstack/simulator"
)

// With the polls of tests the operator asks for each status once in 18 s.
func TestClaimLearnsThatItsVolumeIsInError(t *testing.T) {
	t.Parallel()
	for _, f := range flavour.OnOpenShift() {
		for _, s := range subjects() {
			if !long && f != flavour.Standalone {
				continue
			}
			t.Run(s.Program+"/"+string(f), func(t *testing.T) {
				t.Parallel()
				e := newEnv(t, options{Subject: s, Flavour: f})
				e.awaitAvailable()
				status := ofSubject(s, "extending_error", "error_extending")
				e.must(e.cloud.SetStatus(ofSubject(s, simulator.Share, simulator.Volume),
					e.claimOfCloud(), status))
				e.eventually(installed, func() error { return e.claimHasEvent(status) })
				got, err := e.metric("openstack_csi_volumes_in_error",
					fmt.Sprintf("driver=%q", e.subject.ClusterCSIDriver), fmt.Sprintf("status=%q", status))
				if err != nil || got != 1 {
					t.Errorf("the metric is %v, %v; want 1", got, err)
				}
				e.must(e.hasCondition(ready, opv1.ConditionTrue, "AsExpected"))
			})
		}
	}
}

// claimOfCloud creates a volume or a share in the cloud, and its PersistentVolume with a claim. It
// returns the ID of the volume.
func (e *env) claimOfCloud() (id string) {
	e.t.Helper()
	const name = "pvc-6c4b0c39-16e4-4d12-9a2f-0d5f3b1f6a77"
	ctx, text := e.ctx(), e.cloud.CloudsYAML(simulator.Clouds{})
	manila, err := cloudadmin.Shares(ctx, text)
	e.must(err)
	if e.subject.isManila() {
		id, err = cloudadmin.CreateShare(ctx, manila,
			gophershares.CreateOpts{ShareProto: "NFS", Size: 1, Name: name})
	} else {
		id, err = cloudadmin.CreateVolume(ctx, text, name)
	}
	e.must(err)
	e.apply(e.guest, fmt.Sprintf(`
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {namespace: default, name: data}
spec:
  storageClassName: ""
  volumeName: %[1]s
  accessModes: [ReadWriteOnce]
  resources: {requests: {storage: 1Gi}}
---
apiVersion: v1
kind: PersistentVolume
metadata: {name: %[1]s}
spec:
  accessModes: [ReadWriteOnce]
  capacity: {storage: 1Gi}
  claimRef: {namespace: default, name: data}
  csi: {driver: %[2]s, volumeHandle: %[3]s}
`, name, e.subject.ClusterCSIDriver, id))
	e.eventually(soon, func() error {
		volume, err := e.guest.kube.CoreV1().PersistentVolumes().Get(ctx, name, metav1.GetOptions{})
		if err == nil && volume.Status.Phase != corev1.VolumeBound {
			err = fmt.Errorf("%s is %s", name, volume.Status.Phase)
		}
		return err
	})
	return id
}

func (e *env) claimHasEvent(status string) error {
	events, err := e.guest.kube.CoreV1().Events(metav1.NamespaceDefault).List(e.ctx(),
		metav1.ListOptions{FieldSelector: "reason=VolumeInError,involvedObject.name=data"})
	if err != nil {
		return err
	}
	if len(events.Items) != 1 || !strings.Contains(events.Items[0].Message, status) {
		return fmt.Errorf("the claim has the events %v, want one with %s", events.Items, status)
	}
	return nil
}
