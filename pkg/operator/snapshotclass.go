package operator

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"time"

	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"

	"github.com/openshift/library-go/pkg/controller/factory"
	"github.com/openshift/library-go/pkg/operator/events"
	"github.com/openshift/library-go/pkg/operator/resource/resourceapply"
	"github.com/openshift/library-go/pkg/operator/resource/resourcehelper"

	"github.com/openstack-csi/csi-operator/pkg/bundle"
	"github.com/openstack-csi/csi-operator/pkg/cluster"
	"github.com/openstack-csi/csi-operator/pkg/flavour"
)

// refusedPoll is the time between two attempts to write an object that the API server does not
// serve, or that the operator has no permission for. Nothing tells the operator about the change.
const refusedPoll = time.Minute

// volumeSnapshotClass returns the controller that creates and repairs VolumeSnapshotClasses while
// their CRD exists. It never deletes one: Kubernetes deletes it together with its CRD.
//
// It replaces library-go's apply function, which resets what the administrator may choose.
func (d *driver) volumeSnapshotClass(name string) (factory.Controller, error) {
	var classes []*unstructured.Unstructured
	for _, asset := range d.bundle.Select(bundle.SnapshotClass, flavour.Guest) {
		object, err := decode[map[string]any](asset)
		if err != nil {
			return nil, err
		}
		classes = append(classes, &unstructured.Unstructured{Object: *object})
	}
	if len(classes) == 0 {
		return nil, nil
	}
	resource := schema.GroupVersionResource{
		Group:    resourceapply.VolumeSnapshotClassGroup,
		Version:  resourceapply.VolumeSnapshotClassVersion,
		Resource: resourceapply.VolumeSnapshotClassResource,
	}
	client := d.cluster.Side(flavour.Guest).Dynamic.Resource(resource)
	d.snapshotCRD = d.cluster.Side(flavour.Guest).CRD(resource.GroupResource().String())
	crd := d.snapshotCRD
	sync := func(ctx context.Context, syncCtx factory.SyncContext) error {
		var errs []error
		config, _ := d.choices.Current() // while it is invalid, each class keeps its parameter
		for _, class := range classes {
			if !crd.Exists() {
				break
			}
			err := applySnapshotClass(ctx, client, syncCtx.Recorder(), class, config.ForceCreate())
			switch {
			case apierrors.IsNotFound(err): // the API server does not serve the CRD, or not this version
				syncCtx.Queue().AddAfter(syncCtx.QueueKey(), refusedPoll)
			case err != nil:
				errs = append(errs, fmt.Errorf("VolumeSnapshotClass %s: %w", class.GetName(), err))
			}
		}
		return errors.Join(errs...)
	}
	return factory.New().
		WithInformers(d.choices.Informers()...).
		WithInformers(cluster.DelayStatus(d.operator.Informer()), crd).
		WithSync(d.cluster.Configuring(sync)).
		WithSyncDegradedOnError(d.operator).
		ResyncEvery(staticResync).
		ToController(name, d.events), nil
}

func applySnapshotClass(
	ctx context.Context, client dynamic.ResourceInterface, recorder events.Recorder,
	required *unstructured.Unstructured, forceCreate string,
) error {
	required = withForceCreate(required, forceCreate)
	existing, err := client.Get(ctx, required.GetName(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		_, err := client.Create(ctx, required, metav1.CreateOptions{})
		if !apierrors.IsNotFound(err) { // a condition reports it
			resourcehelper.ReportCreateEvent(recorder, required, err)
		}
		return err
	}
	if err != nil {
		return err
	}
	if forceCreate == "" {
		kept, _, _ := unstructured.NestedString(existing.Object, "parameters", forceCreateParameter)
		required = withForceCreate(required, kept)
	}
	repaired := repairedSnapshotClass(existing, required)
	if equality.Semantic.DeepEqual(existing, repaired) {
		return nil
	}
	_, err = client.Update(ctx, repaired, metav1.UpdateOptions{})
	if err != nil {
		// The reason of library-go, and so of the operators of OpenShift.
		recorder.Warningf("VolumeSnapshotClassFailed", "Failed to update %s: %v",
			resourcehelper.FormatResourceForCLI(required), err)
		return err
	}
	resourcehelper.ReportUpdateEvent(recorder, required, nil)
	return nil
}

// repairedSnapshotClass returns the existing class with the fields of the required one, except its
// metadata and the deletion policy, which the administrator may choose.
func repairedSnapshotClass(
	existing, required *unstructured.Unstructured,
) *unstructured.Unstructured {
	fields := maps.Clone(required.Object)
	delete(fields, "metadata")
	const policy = "deletionPolicy"
	if chosen := existing.Object[policy]; chosen == "Delete" || chosen == "Retain" {
		delete(fields, policy)
	}
	ret := existing.DeepCopy()
	maps.Copy(ret.Object, fields)
	return ret
}

// forceCreateParameter is about snapshots of volumes in use. The administrator may choose it.
const forceCreateParameter = "force-create"

// withForceCreate returns the class with the parameter, or the class itself for an unknown value.
func withForceCreate(class *unstructured.Unstructured, value string) *unstructured.Unstructured {
	if value != "true" && value != "false" {
		return class
	}
	ret := class.DeepCopy()
	_ = unstructured.SetNestedField(ret.Object, value, "parameters", forceCreateParameter) // a map
	return ret
}
