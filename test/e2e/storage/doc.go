// Package storage runs the external storage tests of Kubernetes on real nodes: pods write to
// volumes of the drivers that the operators deployed. `make test-storage` runs it as root.
//
// cinder.yaml and manila.yaml say what the drivers can do; Kubernetes' tests skip the rest.
// skipped.yaml lists the reasons for which tests do not run.
package storage
