//go:build e2e

package csiaddons

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"gotest.tools/v3/assert"
	is "gotest.tools/v3/assert/cmp"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

const (
	// cinderNamespace contains the pods of the driver, and cinderNode is their DaemonSet.
	cinderNamespace = "openstack-csi"
	cinderNode      = "openstack-cinder-csi-driver-node"
	// slack is what ext4 may write to the volume between two measurements: its journal of 16 MiB, and
	// metadata.
	slack = 20 * mebibyte
	// jobLimit and firstJobLimit are the time limits of the tests of kubernetes-csi-addons.
	jobLimit      = 10 * time.Minute
	firstJobLimit = 3 * time.Minute
	// device is the path of a volume without a file system in a pod.
	device = "/dev/volume"
)

// cinderVolume returns a volume with ext4 that a pod uses.
func (x *test) cinderVolume(name string) *volume {
	x.T.Helper()
	return x.mount(name, pods.ClaimSpec(pods.Cinder()), pods.Spec(pods.Sleep, name))
}

// start creates an object, and deletes it after the test.
func (x *test) start(object client.Object) {
	x.T.Helper()
	x.Must(x.client.Create(x.T.Context(), object))
	x.CleanUp(func(ctx context.Context) error { return x.delete(ctx, object) })
}

// delete deletes an object, if it exists, and what Kubernetes has created for it.
func (x *test) delete(ctx context.Context, object client.Object) error {
	return client.IgnoreNotFound(x.client.Delete(ctx, object,
		client.PropagationPolicy(metav1.DeletePropagationBackground)))
}

// reclaim runs a job for a claim, and returns it when it has ended.
func (x *test) reclaim(claim string) *v1alpha1.ReclaimSpaceJob {
	x.T.Helper()
	job := &v1alpha1.ReclaimSpaceJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: pods.Namespace, Name: claim}, Spec: jobSpec(claim),
	}
	x.start(job)
	x.awaitEnd(job)
	return job
}

// awaitEnd reads a job until it has ended.
func (x *test) awaitEnd(job *v1alpha1.ReclaimSpaceJob) {
	x.T.Helper()
	x.Within(jobLimit, "job "+job.Name+" ends", func() error {
		err := x.client.Get(x.T.Context(), client.ObjectKeyFromObject(job), job)
		if err == nil && job.Status.Result == "" {
			err = fmt.Errorf("step %s, reason %s: %s", job.Status.Step, job.Status.Reason,
				job.Status.Message)
		}
		return err
	})
}

// jobSpec returns a job with the limits of the tests of kubernetes-csi-addons.
func jobSpec(claim string) v1alpha1.ReclaimSpaceJobSpec {
	return v1alpha1.ReclaimSpaceJobSpec{
		Target:       v1alpha1.TargetSpec{PersistentVolumeClaim: claim},
		BackOffLimit: ptr.To(int32(15)), RetryDeadlineSeconds: ptr.To(int64(600)),
	}
}

// mustHaveShrunk checks that the volume takes less space than before: by about what the pod wrote,
// and by about what the driver reports.
func (v *volume) mustHaveShrunk(full, reported, tolerance int64) {
	v.x.T.Helper()
	freed := full - v.allocated()
	v.x.T.Logf("the volume shrank from %d bytes by %d bytes; the driver reports %d", full, freed,
		reported)
	assert.Check(v.x.T, freed >= fileSize-slack && freed <= fileSize+slack,
		"the pod deleted %d bytes, but the volume shrank by %d", fileSize, freed)
	assert.Check(v.x.T, reported >= freed-mebibyte && reported <= freed+tolerance,
		"the driver reports %d bytes, but the volume shrank by %d", reported, freed)
}

// mustHaveReclaimed checks the status of a job that has reclaimed space on a node, with the message
// that the tests of kubernetes-csi-addons read, and returns how much. The Deployment of Cinder has
// no sidecar.
func (x *test) mustHaveReclaimed(job *v1alpha1.ReclaimSpaceJob) int64 {
	x.T.Helper()
	s := job.Status
	if s.Result != v1alpha1.OperationSucceeded || s.ReclaimedSpace == nil ||
		!strings.Contains(s.Message, "successfully") || reasonOf(job, "NodeReclaimed") != "Reclaimed" ||
		reasonOf(job, "ControllerReclaimed") != "" {
		x.T.Fatalf("job %s has the status %+v", job.Name, s)
	}
	return s.ReclaimedSpace.Value()
}

// reasonOf returns the reason of a condition, or nothing without the condition.
func reasonOf(job *v1alpha1.ReclaimSpaceJob, kind string) string {
	condition := meta.FindStatusCondition(job.Status.Conditions, kind)
	if condition == nil {
		return ""
	}
	return condition.Reason
}

// The first result for a volume also contains what mkfs and the mount wrote, and what the cloud
// does not free: the driver knows only the sum of all writes.
func TestReclaimSpaceJobReturnsSpaceToTheCloud(t *testing.T) {
	x := use(t)
	v := x.cinderVolume("job")
	fresh := v.allocated()
	full := v.writeAndDelete()
	v.mustHaveShrunk(full, x.mustHaveReclaimed(x.reclaim(v.pod)), fresh+slack)
}

func TestCommandReturnsSpaceToTheCloudTwice(t *testing.T) {
	x := use(t)
	v := x.cinderVolume("command")
	for tolerance := range slices.Values([]int64{v.allocated() + slack, slack}) {
		full := v.writeAndDelete()
		output, err := x.command(v, "--output=json")
		x.Must(err)
		var answer struct {
			Before usage `json:"pre_usage"`
			After  usage `json:"post_usage"`
		}
		x.Must(json.Unmarshal([]byte(output), &answer))
		before, noBefore := strconv.ParseInt(answer.Before.Bytes, 10, 64)
		after, noAfter := strconv.ParseInt(answer.After.Bytes, 10, 64)
		x.Must(errors.Join(noBefore, noAfter))
		v.mustHaveShrunk(full, before-after, tolerance)
	}
}

// usage is a StorageConsumption in the output of the command. JSON of protobuf has large numbers as
// strings.
type usage struct {
	Bytes string `json:"usage_bytes"`
}

// command reclaims the space of a volume with the command csi-addons, in the sidecar on the node of
// the volume.
func (x *test) command(v *volume, more ...string) (string, error) {
	x.T.Helper()
	pod, err := x.podOf(x.T.Context(), cinderNamespace, cinderNode, v.node)
	x.Must(err)
	return x.Exec(cinderNamespace, pod, "csi-addons", append([]string{
		"csi-addons",
		"--operation=NodeReclaimSpace", "--persistentvolume=" + v.name,
	}, more...)...)
}

func TestReclaimSpaceCronJobReturnsSpaceToTheCloud(t *testing.T) {
	x := use(t)
	v := x.cinderVolume("cron")
	fresh := v.allocated()
	full := v.writeAndDelete()
	cron := &v1alpha1.ReclaimSpaceCronJob{
		ObjectMeta: metav1.ObjectMeta{Namespace: pods.Namespace, Name: v.pod},
		Spec: v1alpha1.ReclaimSpaceCronJobSpec{
			Schedule:    "*/1 * * * *",
			JobTemplate: v1alpha1.ReclaimSpaceJobTemplateSpec{Spec: jobSpec(v.pod)},
		},
	}
	x.start(cron)
	var job *v1alpha1.ReclaimSpaceJob
	x.Within(firstJobLimit, "the ReclaimSpaceCronJob has a job", func() error {
		var err error
		job, err = x.firstJob(cron)
		return err
	})
	x.awaitEnd(job)
	v.mustHaveShrunk(full, x.mustHaveReclaimed(job), fresh+slack)
	x.Eventually("the status contains the time of the schedule", func() error {
		err := x.client.Get(t.Context(), client.ObjectKeyFromObject(cron), cron)
		if err == nil && cron.Status.LastScheduleTime == nil {
			err = fmt.Errorf("the status is %+v", cron.Status)
		}
		return err
	})
}

// firstJob returns the first job of a ReclaimSpaceCronJob.
func (x *test) firstJob(cron *v1alpha1.ReclaimSpaceCronJob) (*v1alpha1.ReclaimSpaceJob, error) {
	var jobs v1alpha1.ReclaimSpaceJobList
	if err := x.client.List(x.T.Context(), &jobs, client.InNamespace(pods.Namespace)); err != nil {
		return nil, err
	}
	var first *v1alpha1.ReclaimSpaceJob
	for i := range jobs.Items {
		job := &jobs.Items[i]
		if metav1.IsControlledBy(job, cron) &&
			(first == nil || job.CreationTimestamp.Before(&first.CreationTimestamp)) {
			first = job
		}
	}
	if first == nil {
		return nil, errors.New("there is no job")
	}
	return first, nil
}

// mustBeUnimplemented checks that a job has succeeded without reclaimed space, because the driver
// cannot reclaim it.
func (x *test) mustBeUnimplemented(job *v1alpha1.ReclaimSpaceJob) {
	x.T.Helper()
	s := job.Status
	if s.Result != v1alpha1.OperationSucceeded || s.Reason != "Unimplemented" || s.Retries > 0 ||
		reasonOf(job, "NodeReclaimed") != "Unimplemented" || s.ReclaimedSpace != nil {
		x.T.Errorf("job %s has the status %+v", job.Name, s)
	}
}

// mustRefuseTheCommand checks that the command fails because the driver lacks the operation.
func (x *test) mustRefuseTheCommand(v *volume) {
	x.T.Helper()
	const unimplemented = 3
	if output, err := x.command(v); exitCode(err) != unimplemented {
		x.T.Errorf("the command printed %q, and its error is %v", output, err)
	}
}

// useDevice lets a claim and its pod use a volume without a file system.
func useDevice(claim *corev1.PersistentVolumeClaimSpec, pod *corev1.PodSpec) {
	claim.VolumeMode = ptr.To(corev1.PersistentVolumeBlock)
	pod.Containers[0].VolumeMounts = nil
	pod.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "data", DevicePath: device}}
}

func TestSpaceOfABlockVolumeIsNotReclaimed(t *testing.T) {
	x := use(t)
	claim, pod := pods.ClaimSpec(pods.Cinder()), pods.Spec(pods.Sleep, "block")
	useDevice(&claim, &pod)
	v := x.mount("block", claim, pod)
	v.run(fmt.Sprintf("dd if=/dev/urandom of=%s bs=%d count=8 conv=fsync", device, mebibyte))
	checksum := fmt.Sprintf("head -c %d %s | sha256sum", 8*mebibyte, device)
	sum := v.run(checksum)
	full := v.allocated()
	x.mustBeUnimplemented(x.reclaim(v.pod))
	x.mustRefuseTheCommand(v)
	assert.Check(t, is.Equal(v.allocated(), full), "the volume took %d bytes before", full)
	assert.Check(t, is.Equal(v.run(checksum), sum),
		"the volume changed, whose checksum was %s", sum)
}

func TestSpaceOfADeviceThatCannotDiscardIsNotReclaimed(t *testing.T) {
	x := use(t)
	x.preventDiscard()
	v := x.cinderVolume("no-discard")
	v.run(writeAndDelete)
	x.mustBeUnimplemented(x.reclaim(v.pod))
	x.mustRefuseTheCommand(v)
}
