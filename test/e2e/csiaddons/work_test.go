//go:build e2e

package csiaddons

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"gotest.tools/v3/assert"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/test/e2e/pods"
)

// damaged is the exit code of a pod that finds another checksum than an earlier pod.
const damaged = 42

// writeOrCheck writes a file with its checksum. Another pod then compares them. If the pod ends
// before, the checksum does not have its name yet. The exit code is damaged if they differ.
const writeOrCheck = `set -e
cd ` + pods.DataPath + `
if [ -e sum ]; then
  sha256sum -c sum || exit 42
  exit 0
fi
head -c 8000000 /dev/urandom | dd of=file conv=fsync status=none
sha256sum file | dd of=sum.new conv=fsync status=none
mv sum.new sum
`

// work is what users do while nodes fail: a claim of each class, which two pods use one after the
// other, and a ReclaimSpaceJob for the volume of each writer.
type work struct {
	f       *faults
	name    string
	claims  []string
	objects []client.Object
	// volumes are the PersistentVolumes of the claims, after their creation.
	volumes []*volume
}

// startWork creates the objects of some work.
func (f *faults) startWork(name string) *work {
	f.T.Helper()
	w := &work{f: f, name: name}
	for driver, class := range map[string]pods.Class{
		"cinder": pods.Cinder(), "manila": pods.Manila(),
	} {
		claim := name + "-" + driver
		pod := pods.Spec(writeOrCheck, claim)
		// Kubelet never starts a pod, without restarts, whose node lost power between the creation and
		// the start of its container.
		pod.ActiveDeadlineSeconds = ptr.To[int64](60)
		meta := metav1.ObjectMeta{Name: claim, Namespace: pods.Namespace}
		w.claims = append(w.claims, claim)
		w.objects = append(w.objects,
			&batchv1.Job{ObjectMeta: meta, Spec: batchv1.JobSpec{
				Completions: ptr.To[int32](2), Parallelism: ptr.To[int32](1),
				BackoffLimit: ptr.To[int32](100),
				Template:     corev1.PodTemplateSpec{Spec: pod},
				PodFailurePolicy: &batchv1.PodFailurePolicy{Rules: []batchv1.PodFailurePolicyRule{{
					Action: batchv1.PodFailurePolicyActionFailJob,
					OnExitCodes: &batchv1.PodFailurePolicyOnExitCodesRequirement{
						Operator: batchv1.PodFailurePolicyOnExitCodesOpIn, Values: []int32{damaged},
					},
				}}},
			}},
			&corev1.PersistentVolumeClaim{ObjectMeta: meta, Spec: pods.ClaimSpec(class)})
	}
	for _, writer := range f.disks {
		w.objects = append(w.objects, &v1alpha1.ReclaimSpaceJob{
			ObjectMeta: metav1.ObjectMeta{Name: name + "-" + writer.Pod, Namespace: pods.Namespace},
			Spec:       jobSpec(writer.Claim),
		})
	}
	for _, object := range w.objects {
		f.start(object)
	}
	return w
}

// await waits until all jobs have succeeded, and finds the volumes. No node may be fenced then.
func (w *work) await() {
	w.f.T.Helper()
	for _, object := range w.objects {
		switch job := object.(type) {
		case *batchv1.Job:
			w.f.Eventually("job "+job.Name+" succeeds", func() error { return w.f.succeeded(job) })
		case *v1alpha1.ReclaimSpaceJob:
			w.f.awaitEnd(job)
			if job.Status.Result != v1alpha1.OperationSucceeded {
				w.f.T.Errorf("ReclaimSpaceJob %s has the status %+v", job.Name, job.Status)
			}
		}
	}
	for _, claim := range w.claims {
		v := w.f.volumeOf(claim)
		w.volumes = append(w.volumes, v)
		for _, network := range w.f.networks {
			if strings.HasSuffix(claim, "manila") {
				w.f.mustHaveAccess(v, network, "rw")
			}
		}
	}
}

// succeeded returns an error until a job has succeeded.
func (f *faults) succeeded(job *batchv1.Job) error {
	if err := f.client.Get(f.T.Context(), client.ObjectKeyFromObject(job), job); err != nil {
		return err
	}
	for _, condition := range job.Status.Conditions {
		if condition.Type == batchv1.JobFailed && condition.Status == corev1.ConditionTrue {
			f.T.Fatalf("job %s failed: %s", job.Name, condition.Message)
		}
	}
	if job.Status.Succeeded < *job.Spec.Completions {
		list, err := f.Pods().List(f.T.Context(), metav1.ListOptions{
			LabelSelector: batchv1.JobNameLabel + "=" + job.Name,
		})
		for _, pod := range list.Items {
			err = errors.Join(err, f.Describe(&pod))
		}
		return errors.Join(errors.New("it has not"), err)
	}
	return nil
}

// remove deletes everything.
func (w *work) remove() {
	w.f.T.Helper()
	for _, object := range w.objects {
		w.f.Must(w.f.delete(w.f.T.Context(), object))
	}
}

// awaitGone waits until the volumes are gone, in Kubernetes and in the cloud.
func (w *work) awaitGone() {
	w.f.T.Helper()
	for _, v := range w.volumes {
		w.f.Eventually("volume "+v.name+" is gone", func() error {
			_, err := w.f.Cluster.Client.CoreV1().PersistentVolumes().
				Get(w.f.T.Context(), v.name, metav1.GetOptions{})
			if !apierrors.IsNotFound(err) {
				return errors.Join(errors.New("the PersistentVolume exists"), err)
			}
			if slices.Contains(w.f.stored(), v.id) {
				return errors.New("the cloud contains it")
			}
			return nil
		})
	}
}

// stored returns the IDs of all volumes and shares in the cloud: the names of their data.
func (f *faults) stored() []string {
	f.T.Helper()
	var ids []string
	for _, kind := range []string{"volumes", "shares"} {
		entries, err := os.ReadDir(filepath.Join(f.Cluster.Dir.OpenStackState(), kind))
		f.Must(err)
		for _, entry := range entries {
			ids = append(ids, entry.Name())
		}
	}
	return ids
}

// mustHaveNoOtherVolumes checks that the cloud contains only the volumes of PersistentVolumes.
func (f *faults) mustHaveNoOtherVolumes() {
	f.T.Helper()
	list, err := f.Cluster.Client.CoreV1().PersistentVolumes().List(f.T.Context(),
		metav1.ListOptions{})
	f.Must(err)
	known := map[string]bool{}
	for _, v := range list.Items {
		known[v.Spec.CSI.VolumeHandle] = true
	}
	for _, id := range f.stored() {
		assert.Check(f.T, known[id], "the cloud contains %s, which no PersistentVolume uses", id)
	}
}

// watchDevices reads many times a second which files of volumes have loop devices, until the caller
// calls the result. It returns an error if a file had two: the kernel has a device as long as it is
// attached to a node, or mounted there.
func (x *test) watchDevices() func() error {
	ctx, stop := context.WithCancel(x.T.Context())
	result := make(chan error, 1)
	go func() {
		tick := time.NewTicker(10 * time.Millisecond)
		defer tick.Stop()
		var err error
		attachments, before := 0, map[string]string{}
		for err == nil && ctx.Err() == nil {
			var now map[string]string
			now, err = devices(x.volumes())
			for file, device := range now {
				if before[file] != device {
					attachments++
				}
			}
			before = now
			select {
			case <-tick.C:
			case <-ctx.Done():
			}
		}
		x.T.Logf("volumes were attached %d times", attachments)
		result <- err
	}()
	return func() error {
		stop()
		return <-result
	}
}

// devices returns the loop devices of the files in a folder, and an error if a file has two.
func devices(folder string) (map[string]string, error) {
	files, err := filepath.Glob("/sys/block/loop*/loop/backing_file")
	if err != nil {
		return nil, err
	}
	found := map[string]string{}
	var errs []error
	for _, file := range files {
		content, err := os.ReadFile(file)
		volume := strings.TrimSpace(string(content))
		if err != nil || !strings.HasPrefix(volume, folder+"/") {
			continue // it was freed, or it belongs to others
		}
		if other, exists := found[volume]; exists {
			errs = append(errs, fmt.Errorf("%s has the devices %s and %s", volume, other, file))
		}
		found[volume] = file
	}
	return found, errors.Join(errs...)
}
