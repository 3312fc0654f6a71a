#!/usr/bin/env bash
# Copies CustomResourceDefinitions that only OpenShift contains from Go modules, in the versions of
# go.mod, into the tree $1, by default this one. `make update` and hack/verify.sh call it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=${1:-.}

# copy TO MODULE FILE... replaces the folder TO by files of a module.
copy() {
	local to=${root}/assets/$1 source
	source=$(go mod download -json "$2" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	rm -rf "${to}"
	mkdir -p "${to}"
	shift 2
	install -m 644 "${@/#/${source}/}" "${to}"
}

copy crds/generated github.com/openshift/api \
	operator/v1/zz_generated.crd-manifests/0000_50_csi-driver_01_clustercsidrivers-Default.crd.yaml
# On Kubernetes the ClusterCSIDriver of Manila has the name that its driver has there.
sed -i 's/^\( *\)- manila.csi.openstack.org$/&\n\1- nfs.manila.csi.openstack.org/' \
	"${root}"/assets/crds/generated/*.yaml
copy snapshots/generated github.com/kubernetes-csi/external-snapshotter/client/v8 \
	config/crd/snapshot.storage.k8s.io_volumesnapshot{classes,contents,s}.yaml
