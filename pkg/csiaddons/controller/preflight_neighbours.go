package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/log"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
)

// Reasons of events of the Deployment.
const (
	// reasonOtherKinds means that the API server knows kinds that only another controller processes.
	reasonOtherKinds = "KindsNotProcessed"
	// reasonMissingFields means that Kubernetes drops fields that the controller needs.
	reasonMissingFields = "MissingFields"
)

const (
	replicationGroup = "replication.storage.openshift.io"
	// finalizerPage limits the memory for objects of tenants.
	finalizerPage = 50
)

// otherKinds returns the kinds of the CSI-Addons for Ceph that this controller does not process.
func otherKinds() []schema.GroupKind {
	return []schema.GroupKind{
		{Group: v1alpha1.Group, Kind: "EncryptionKeyRotationCronJob"},
		{Group: v1alpha1.Group, Kind: "EncryptionKeyRotationJob"},
		{Group: replicationGroup, Kind: "VolumeGroupReplication"},
		{Group: replicationGroup, Kind: "VolumeGroupReplicationClass"},
		{Group: replicationGroup, Kind: "VolumeGroupReplicationContent"},
		{Group: replicationGroup, Kind: "VolumeReplication"},
		{Group: replicationGroup, Kind: "VolumeReplicationClass"},
	}
}

// neededFields returns the fields without which an operation does not work, by kind. They are not
// in all releases of the CSI-Addons for Ceph. It contains no field that only this project has.
func neededFields() map[string][]string {
	return map[string][]string{
		"CSIAddonsNode": {"status.capabilities", "status.networkFenceClientStatus"},
		"NetworkFence":  {"spec.networkFenceClassName"},
	}
}

// servedOthers returns which of the other kinds the API server knows.
func (p *preflight) servedOthers() ([]schema.GroupVersionKind, error) {
	var found []schema.GroupVersionKind
	for _, kind := range otherKinds() {
		mapping, err := p.client.RESTMapper().RESTMapping(kind)
		switch {
		case err == nil:
			found = append(found, mapping.GroupVersionKind)
		case !meta.IsNoMatchError(err):
			return nil, fmt.Errorf("reading whether the cluster has the kind %s: %w", kind, err)
		}
	}
	return found, nil
}

// checkFinalizers returns an error if another controller of CSI-Addons has left finalizers that
// this one never removes. A file or OLM may have replaced that controller without a question.
func (p *preflight) checkFinalizers(ctx context.Context) error {
	if p.settings.IgnoreFinalizers {
		return nil
	}
	kinds, err := p.servedOthers()
	if err != nil {
		return err
	}
	for _, kind := range kinds {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(kind)
		for more := true; more; more = list.Continue != "" {
			err := p.client.List(ctx, list, client.Limit(finalizerPage), client.Continue(list.Continue))
			if err != nil {
				return fmt.Errorf("looking for finalizers of another controller: %w", err)
			}
			for i := range list.Items {
				if one := &list.Items[i]; slices.ContainsFunc(one.Finalizers, ofOthers) {
					return fmt.Errorf("%s %s has the finalizers %.200s, which only the controller of the "+
						"CSI-Addons for Ceph removes. Use that controller, or remove the finalizers, or set "+
						"--ignore-finalizers", kind.Kind, client.ObjectKeyFromObject(one),
						strings.Join(one.Finalizers, ", "))
				}
			}
		}
	}
	return nil
}

// ofOthers returns whether the controller of the CSI-Addons for Ceph adds a finalizer.
func ofOthers(finalizer string) bool {
	domain, _, _ := strings.Cut(finalizer, "/")
	return domain == replicationGroup || domain == v1alpha1.Group
}

// report sends events about kinds that nothing processes, and about fields that Kubernetes drops,
// once in the life of a process.
func (p *preflight) report(ctx context.Context) error {
	if p.reported {
		return nil
	}
	kinds, errKinds := p.servedOthers()
	fields, errFields := p.missingFields()
	deployment := &appsv1.Deployment{}
	name := client.ObjectKey{Namespace: p.settings.Namespace, Name: DeploymentName}
	err := errors.Join(errKinds, errFields, client.IgnoreNotFound(p.client.Get(ctx, name, deployment)))
	if err != nil {
		return err
	}
	p.reported = true
	warn := func(reason, text string, items []string) {
		if len(items) == 0 {
			return
		}
		text += ": " + strings.Join(items, ", ")
		log.FromContext(ctx).Info(text, "reason", reason)
		if deployment.Name != "" {
			p.events.Eventf(deployment, nil, corev1.EventTypeWarning, reason, "Start", "%.900s", text)
		}
	}
	var names []string
	for _, kind := range kinds {
		names = append(names, kind.Kind)
	}
	warn(reasonOtherKinds, "This controller does not process the kinds", names)
	warn(reasonMissingFields, "CustomResourceDefinitions of another program lack the fields", fields)
	return nil
}

// missingFields returns the fields that the CustomResourceDefinitions lack, as `kind field`. All
// users may read the schemas of the API server.
func (p *preflight) missingFields() ([]string, error) {
	document, err := p.schemas(v1alpha1.GroupVersion())
	if err != nil {
		return nil, fmt.Errorf("reading the schemas of CSI-Addons: %w", err)
	}
	schemas, _, _ := unstructured.NestedMap(document, "components", "schemas")
	var missing []string
	needed := neededFields()
	for name, found := range schemas {
		kind := name[strings.LastIndex(name, ".")+1:]
		for _, path := range needed[kind] {
			fields := strings.Split("properties."+strings.ReplaceAll(path, ".", ".properties."), ".")
			properties, _ := found.(map[string]any)
			if _, has, _ := unstructured.NestedFieldNoCopy(properties, fields...); !has {
				missing = append(missing, kind+" "+path)
			}
		}
		delete(needed, kind)
	}
	if len(needed) > 0 { // the API server publishes a new kind some time after it serves it
		return nil, errors.New("the API server does not publish the schemas of CSI-Addons yet")
	}
	slices.Sort(missing)
	return missing, nil
}
