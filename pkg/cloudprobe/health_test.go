package cloudprobe

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	kubetesting "k8s.io/client-go/testing"

	"github.com/openstack-csi/csi-operator/pkg/flavour"
	"github.com/openstack-csi/csi-operator/pkg/openstack"
)

// errorFixture is a fixture with volumes in error.
type errorFixture struct {
	*quotaFixture
	// found are the volumes in error by status, and asked the statuses of the requests.
	found map[string][]openstack.Volume
	asked []string
	err   error
	// forbidden is true if PersistentVolumes cannot be read.
	forbidden bool
}

func newErrorFixture(t *testing.T) *errorFixture {
	t.Helper()
	f := &errorFixture{quotaFixture: newQuotaFixture(t), found: map[string][]openstack.Volume{}}
	f.Probe.Quotas, f.Errors = nil, []string{"error", "error_deleting"}
	f.Guest = f.fake.Side(flavour.Guest)
	f.InError = func(
		_ *openstack.Client, _ context.Context, status string,
	) ([]openstack.Volume, error) {
		f.asked = append(f.asked, status)
		return f.found[status], f.err
	}
	f.fake.Guest.PrependReactor("create", "selfsubjectaccessreviews",
		func(kubetesting.Action) (bool, runtime.Object, error) {
			review := &authorizationv1.SelfSubjectAccessReview{}
			review.Status.Allowed = !f.forbidden
			return true, review, nil
		})
	return f
}

// breaks adds n volumes in status error, whose PersistentVolumes have claims. change may change a
// PersistentVolume before its creation, and is optional.
func (f *errorFixture) breaks(t *testing.T, n int, change func(*corev1.PersistentVolume)) {
	t.Helper()
	const status = "error"
	for range n {
		i := len(f.found[status])
		id := fmt.Sprintf("%08d-%04d-0000-0000-000000000000", i, len(status))
		pv := &corev1.PersistentVolume{
			ObjectMeta: metav1.ObjectMeta{Name: "pvc-" + id},
			Spec: corev1.PersistentVolumeSpec{
				ClaimRef: &corev1.ObjectReference{Namespace: "team", Name: "claim-" + id},
				PersistentVolumeSource: corev1.PersistentVolumeSource{
					CSI: &corev1.CSIPersistentVolumeSource{Driver: f.Driver, VolumeHandle: id},
				},
			},
			Status: corev1.PersistentVolumeStatus{Phase: corev1.VolumeBound},
		}
		f.found[status] = append(f.found[status], openstack.Volume{ID: id, Name: pv.Name, Status: status})
		if change != nil {
			change(pv)
		}
		_, err := f.fake.Guest.CoreV1().PersistentVolumes().
			Create(t.Context(), pv, metav1.CreateOptions{})
		assert.NilError(t, err)
	}
}

// round syncs until each status was asked for, and returns the number of events on claims and the
// messages of those about all others since the last round.
func (f *errorFixture) round(t *testing.T) (onClaims int, others []string) {
	t.Helper()
	events := f.fake.Guest.CoreV1().Events("team")
	before := len(f.events.Events())
	f.fake.Guest.ClearActions()
	for range f.Errors {
		f.later(t, errorPolls*interval)
	}
	list, err := events.List(t.Context(), metav1.ListOptions{})
	assert.NilError(t, err)
	for _, event := range list.Items {
		onClaims++
		assert.Check(t, event.Reason == "VolumeInError" && event.Type == corev1.EventTypeWarning &&
			strings.HasPrefix(event.InvolvedObject.Name, "claim-"), "%+v", event)
		assert.NilError(t, events.Delete(t.Context(), event.Name, metav1.DeleteOptions{}))
	}
	for _, event := range f.events.Events()[before:] {
		if event.Reason == "VolumeInError" {
			others = append(others, event.Message)
		}
	}
	return onClaims, others
}

func TestOnlyVolumesOfTheClusterAreInError(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*corev1.PersistentVolume){
		"another cluster": func(pv *corev1.PersistentVolume) { pv.Name = "other" },
		"another driver":  func(pv *corev1.PersistentVolume) { pv.Spec.CSI.Driver = "other" },
		"another volume":  func(pv *corev1.PersistentVolume) { pv.Spec.CSI.VolumeHandle = "other" },
		"no driver":       func(pv *corev1.PersistentVolume) { pv.Spec.CSI = nil },
	} {
		f := newErrorFixture(t)
		f.breaks(t, 1, change)
		f.found["error"] = append(f.found["error"], openstack.Volume{ID: "1", Name: "../nodes/a"},
			openstack.Volume{ID: "2"})
		claims, others := f.round(t)
		assert.Check(t, claims == 0 && len(others) == 0, "%s: %d, %q", name, claims, others)
		assert.Check(t, is.DeepEqual(map[string]float64{"error": 0, "error_deleting": 0},
			f.series(t, "openstack_csi_volumes_in_error")), name)
	}
}

// A claim gets an event when its volume comes into a status, at most 20 claims in a poll.
func TestChangedClaimsGetEvents(t *testing.T) {
	t.Parallel()
	f := newErrorFixture(t)
	conditions := len(f.client.SortedConditions(t))
	var text string
	for _, step := range []struct {
		name                  string
		broken, released      int // more volumes
		claims, others, count int
	}{
		{name: "healthy"},
		{name: "one", broken: 1, claims: 1, count: 1},
		{name: "the same", count: 1},
		{name: "an outage", broken: 30, claims: 20, others: 10, count: 31},
		{name: "the same again", count: 31},
		{name: "without claims", broken: 2, released: 3, claims: 2, others: 3, count: 36},
	} {
		f.breaks(t, step.broken, nil)
		f.breaks(t, step.released, func(pv *corev1.PersistentVolume) {
			pv.Status.Phase = corev1.VolumeReleased
		})
		claims, others := f.round(t)
		assert.Check(t, is.Equal(claims, step.claims), step.name)
		if want := fmt.Sprintf("%d volumes without", step.others); step.others > 0 {
			assert.Check(t, len(others) == 1 && strings.HasPrefix(others[0], want), step.name)
			text = others[0]
		} else {
			assert.Check(t, is.Len(others, 0), step.name)
		}
		assert.Check(t, is.Equal(f.series(t, "openstack_csi_volumes_in_error")["error"],
			float64(step.count)), step.name)
	}
	assert.Check(t, is.Equal(text, "3 volumes without an event on their claims are in the status "+
		"error in OpenStack. List them: kubectl openstack-csi volumes -A --clouds clouds.yaml"))
	f.found["error_deleting"] = f.found["error"][:1]
	claims, _ := f.round(t)
	assert.Check(t, is.Equal(claims, 1), "another status")
	assert.Check(t, len(f.client.SortedConditions(t)) <= conditions+1, "only that of the probe")
}

// A release of OpenShift may not permit to read PersistentVolumes.
func TestWithoutPermissionOneEventSaysIt(t *testing.T) {
	t.Parallel()
	f := newErrorFixture(t)
	f.forbidden = true
	f.breaks(t, 2, nil)
	f.fake.Guest.PrependReactor("get", "*", func(a kubetesting.Action) (bool, runtime.Object, error) {
		t.Errorf("request for %v", a.GetResource())
		return true, nil, errors.New("403")
	})
	for _, want := range []string{"2 volumes", ""} {
		claims, others := f.round(t)
		assert.Check(t, claims == 0 && strings.HasPrefix(strings.Join(others, ""), want))
		assert.Check(t, is.Equal(len(others), len(want)/len("2 volumes")))
	}
	assert.Check(t, is.Len(f.series(t, "openstack_csi_volumes_in_error"), 0))
}

func TestEventThatTheAPIServerRefusesIsOneOfTheOthers(t *testing.T) {
	t.Parallel()
	f := newErrorFixture(t)
	f.breaks(t, 2, nil)
	f.fake.Guest.PrependReactor("create", "events",
		func(kubetesting.Action) (bool, runtime.Object, error) { return true, nil, errors.New("403") })
	claims, others := f.round(t)
	assert.Check(t, claims == 0 && len(others) == 1 && strings.HasPrefix(others[0], "2 volumes"))
}

// What is not known changes nothing, and is reported when it is known.
func TestUnknownVolumesAreReportedLater(t *testing.T) {
	t.Parallel()
	f := newErrorFixture(t)
	f.breaks(t, 2, nil)
	failing := true
	f.fake.Guest.PrependReactor("get", "persistentvolumes",
		func(kubetesting.Action) (bool, runtime.Object, error) { return failing, nil, errors.New("500") })
	claims, others := f.round(t)
	assert.Check(t, claims == 0 && len(others) == 0)
	failing = false
	claims, _ = f.round(t)
	assert.Check(t, is.Equal(claims, 2))
	for name, test := range map[string]struct {
		err  error
		want int
	}{
		"an outage": {errors.New("timeout"), 2},
		"a refusal": {&openstack.Error{Reason: openstack.Forbidden, Message: "403"}, 0},
	} {
		f.err = test.err
		claims, _ = f.round(t)
		assert.Check(t, is.Equal(claims, 0), name)
		assert.Check(t, is.Equal(f.series(t, "openstack_csi_volumes_in_error")["error"],
			float64(test.want)), name)
		f.err = nil
		claims, _ = f.round(t)
		assert.Check(t, is.Equal(claims, 0), "%s: events were repeated", name)
	}
}

// The first answers come at once, the others at equal intervals.
func TestErrorsAreAskedForOnceInAnHour(t *testing.T) {
	t.Parallel()
	f := newErrorFixture(t)
	f.Errors = openstack.ShareErrors()
	for range f.Errors {
		f.later(t, interval)
	}
	assert.Check(t, is.DeepEqual(f.Errors, f.asked))
	var at []int
	for minute := range 120 {
		before := len(f.asked)
		if f.later(t, interval); len(f.asked) > before {
			at = append(at, minute)
		}
	}
	assert.Check(t, len(at) >= 12 && len(at) <= 14, "%v", at)
	for i := range at[1:] {
		assert.Check(t, at[i+1]-at[i] >= 8 && at[i+1]-at[i] <= 10, "%v", at)
	}
	assert.Check(t, is.DeepEqual(slices.Compact(slices.Sorted(slices.Values(f.asked))),
		slices.Sorted(slices.Values(f.Errors))))
	f.finds(noResponse())
	before := len(f.asked)
	f.later(t, 2*time.Hour)
	assert.Check(t, is.Len(f.asked, before), "after a probe that failed")
}
