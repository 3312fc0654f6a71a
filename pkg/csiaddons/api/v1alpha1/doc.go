// Package v1alpha1 contains the API types of CSI-Addons in the group csiaddons.openshift.io. The
// controller, the sidecars and their tests use it.
//
// Kinds, fields, defaults and validation are those of the CSI-Addons for Ceph, so that objects
// written for one of the two systems work in the other. This package adds only fields of a status.
// The programs work without these fields, because the API server drops them if another program has
// installed the CustomResourceDefinitions (docs/decisions/0036-csi-addons-api.md).
//
// +kubebuilder:object:generate=true
// +groupName=csiaddons.openshift.io
package v1alpha1
