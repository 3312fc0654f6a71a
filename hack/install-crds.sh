#!/usr/bin/env bash
# Installs, with kubectl, the CustomResourceDefinitions that the operators need in a cluster that is
# not OpenShift. With --snapshots it also installs those of snapshots that the cluster does not
# have.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# apply MODULE FILE... installs files of a Go module, in the version of go.mod.
apply() {
	local folder file
	folder=$(go mod download -json "$1" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	for file in "${@:2}"; do
		kubectl apply --server-side -f "${folder}/${file}"
	done
}

case "${1:-}" in
'' | --snapshots) ;;
*)
	echo >&2 "usage: $0 [--snapshots]"
	exit 2
	;;
esac

apply github.com/openshift/api \
	operator/v1/zz_generated.crd-manifests/0000_50_csi-driver_01_clustercsidrivers-Default.crd.yaml
crds=(clustercsidrivers.operator.openshift.io)
if [ "${1:-}" = --snapshots ]; then
	for name in volumesnapshotclasses volumesnapshotcontents volumesnapshots; do
		crd=${name}.snapshot.storage.k8s.io
		found=$(kubectl get crd "${crd}" --ignore-not-found -o name)
		if [ -z "${found}" ]; then
			apply github.com/kubernetes-csi/external-snapshotter/client/v8 \
				"config/crd/snapshot.storage.k8s.io_${name}.yaml"
		fi
		crds+=("${crd}")
	done
fi
kubectl wait --for=condition=Established --timeout=60s "${crds[@]/#/crd/}"
