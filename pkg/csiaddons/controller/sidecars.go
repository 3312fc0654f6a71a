package controller

import (
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/openstack-csi/csi-operator/pkg/csiaddons/api/v1alpha1"
	"github.com/openstack-csi/csi-operator/pkg/csiaddons/wire"
)

// Limits of a CSIAddonsNode in the cache. The lengths are in bytes.
const (
	// maxDriver is the maximum length of a driver's name in the specification of CSI-Addons.
	maxDriver = 63
	// maxClasses limits the list of names of NetworkFenceClasses. If the list of the controller is
	// longer, the controller writes it again each time it reads the clients of the node.
	maxClasses = 4 << 10
	// maxOwners limits the number of owners. A sidecar writes one.
	maxOwners = 8
	// maxFinalizers limits the number of finalizers, and maxFinalizer each of them.
	maxFinalizers, maxFinalizer = 8, 317
)

// shrinkSidecar removes what the operations do not read from a CSIAddonsNode. Somebody with root on
// a node can create such objects, and the CustomResourceDefinition of another program does not
// limit its texts. The time at which a sidecar wrote the object goes too, so that it causes no
// reconciliation.
func shrinkSidecar(object any) (any, error) {
	node, ok := object.(*v1alpha1.CSIAddonsNode)
	if !ok {
		return object, nil
	}
	small := smallMeta(&node.ObjectMeta)
	small.OwnerReferences = uids(node.OwnerReferences)
	small.Finalizers = allOrNone(node.Finalizers)
	for key, limit := range map[string]int{
		v1alpha1.CertificatePinAnnotation: maxName, v1alpha1.NetworkFenceClassNamesAnnotation: maxClasses,
	} {
		if value, ok := node.Annotations[key]; ok {
			metav1.SetMetaDataAnnotation(&small, key, cut(value, limit))
		}
	}
	node.ObjectMeta = small
	driver := &node.Spec.Driver
	driver.Name = cut(driver.Name, maxDriver)
	driver.EndPoint = cut(driver.EndPoint, wire.MaxEndpoint)
	driver.NodeID = cut(driver.NodeID, maxName)
	return node, nil
}

// uids returns the first owners, only with their UIDs.
func uids(owners []metav1.OwnerReference) []metav1.OwnerReference {
	var small []metav1.OwnerReference
	for i := range owners[:min(len(owners), maxOwners)] {
		small = append(small, metav1.OwnerReference{UID: cut(owners[i].UID, maxName)})
	}
	return small
}

// allOrNone returns the finalizers, or nil if they are too many or too long. A patch that removes a
// finalizer replaces the list, so a part of the list would remove the finalizers of other programs.
// Without the list, the controller writes no such patch.
func allOrNone(finalizers []string) []string {
	large := func(one string) bool { return len(one) > maxFinalizer }
	if len(finalizers) > maxFinalizers || slices.ContainsFunc(finalizers, large) {
		return nil
	}
	return slices.Clone(finalizers)
}
