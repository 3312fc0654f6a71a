#!/usr/bin/env bash
# Fills the folder $1 with what the devcluster uses from Go modules: CRDs, the stages of kwok, and
# the programs of Kubernetes. It skips what is up to date. `make k8s` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# The folders of two go.mod files: with the versions of all programs, and of two CRDs.
programs=test/devcluster/kubernetes
prometheus=test/devcluster/crd

# is_current FILE HASH returns whether FILE contains the hash. A step writes it when it is complete.
is_current() { [ "$(cat "$1" 2>/dev/null)" = "$2" ]; }

# hash prints the hash of its input and of the code of this script.
hash() { cat - <(grep -v '^#' hack/k8s.sh) | sha256sum; }

# copy TO GO_MOD_FOLDER MODULE FILE... copies files of a module.
copy() {
	local to=$1 source file
	source=$(go -C "$2" mod download -json "$3" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	mkdir -p "${to}"
	for file in "${@:4}"; do
		install -m 644 "${source}/${file}" "${to}"
	done
}

mkdir -p "$1"
out=$(realpath "$1")
new=$(mktemp -d "${out}/new.XXXXXX")
trap 'rm -rf "${new}"' EXIT

wanted=$(grep -hE 'openshift/api v|external-snapshotter/|prometheus-operator v|k8s.io/kwok v' \
	go.mod "${prometheus}/go.mod" "${programs}/go.mod" | hash)
if ! is_current "${out}/manifests.sha256" "${wanted}"; then
	copy "${new}/crds" . github.com/openshift/api \
		config/v1/zz_generated.crd-manifests/0000_03_config-operator_01_proxies.crd.yaml \
		config/v1/zz_generated.crd-manifests/0000_10_config-operator_01_{apiservers,infrastructures}-Default.crd.yaml \
		operator/v1/zz_generated.crd-manifests/0000_50_csi-driver_01_clustercsidrivers-Default.crd.yaml \
		operator/v1/zz_generated.crd-manifests/0000_50_storage_01_storages.crd.yaml
	copy "${new}/crds" . github.com/kubernetes-csi/external-snapshotter/client/v8 \
		config/crd/snapshot.storage.k8s.io_volumesnapshot{classes,contents,s}.yaml
	copy "${new}/crds" "${prometheus}" github.com/prometheus-operator/prometheus-operator \
		example/prometheus-operator-crd/monitoring.coreos.com_{prometheusrules,servicemonitors}.yaml
	# With these stages nodes are ready at once, and pods start and end at once.
	copy "${new}/stages" "${programs}" sigs.k8s.io/kwok \
		kustomize/stage/node/{fast/node-initialize,heartbeat-with-lease/node-heartbeat-with-lease}.yaml \
		kustomize/stage/pod/fast/pod-{ready,complete,delete}.yaml
	mkdir -p "${out}/manifests"
	rm -rf "${out}"/manifests/{crds,stages}
	mv "${new}"/{crds,stages} "${out}/manifests"
	echo "${wanted}" >"${out}/manifests.sha256"
fi

wanted=$( (cat "${programs}/go.mod" && go env GOVERSION GOARCH) | hash)
if ! is_current "${out}/programs.sha256" "${wanted}"; then
	echo "Building Kubernetes from Go modules into ${out} (about 5 minutes on two cores, once)"
	version=$(go -C "${programs}" list -m -f '{{.Version}}' k8s.io/kubernetes)
	IFS=. read -r major minor _ <<<"${version#v}"
	flags='-s -w'
	for variable in "Version=${version}" "Major=${major}" "Minor=${minor}" TreeState=archive; do
		flags+=" -X k8s.io/component-base/version.git${variable}"
	done
	go -C "${programs}" build -ldflags "${flags}" -o "${new}/programs/" go.etcd.io/etcd/server/v3 \
		k8s.io/kubernetes/cmd/kube{-apiserver,-controller-manager,-scheduler,ctl} \
		sigs.k8s.io/kwok/cmd/kwok
	mv "${new}/programs/server" "${new}/programs/etcd"
	mv "${new}"/programs/* "${out}"
	echo "${wanted}" >"${out}/programs.sha256"
fi
