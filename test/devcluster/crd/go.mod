// A module of its own, because the module that carries the CRDs of Prometheus
// Operator depends on all of Prometheus and would choose versions for the others.
module github.com/openstack-csi/csi-operator/test/devcluster/crd

go 1.26.0

require github.com/prometheus-operator/prometheus-operator v0.85.0 // indirect
