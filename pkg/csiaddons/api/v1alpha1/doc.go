// Package v1alpha1 contains the API types of CSI-Addons in the group csiaddons.openshift.io. The
// controller, the sidecars and their tests use it.
//
// Kinds, fields, defaults and validation are those of the CSI-Addons for Ceph, so that objects
// written for either system work in the other. Only fields of a status are added. The programs work
// without these fields, because a CustomResourceDefinition that somebody else installed drops them
// (docs/decisions/0036-csi-addons-api.md).
//
// +kubebuilder:object:generate=true
// +groupName=csiaddons.openshift.io
package v1alpha1
