#!/usr/bin/env bash
# Copies the CustomResourceDefinitions of snapshots from their Go module, in the version of go.mod,
# into the tree $1, by default this one. `make update` and hack/verify.sh call it.
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

copy snapshots/generated github.com/kubernetes-csi/external-snapshotter/client/v8 \
	config/crd/snapshot.storage.k8s.io_volumesnapshot{classes,contents,s}.yaml
