#!/usr/bin/env bash
# Builds the programs of a real node from Go modules into the folder $1: kubelet, kube-proxy,
# containerd and network plugins. It skips what is up to date. `make node` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# version FOLDER MODULE prints the version of a module.
version() { go -C "$1" list -m -f '{{.Version}}' "$2"; }

# flags FOLDER prints the flags of the linker for the programs of a folder.
flags() {
	local release major minor variable
	printf -- '-s -w'
	case $1 in
	*/kubernetes)
		release=$(version "$1" k8s.io/kubernetes)
		IFS=. read -r major minor _ <<<"${release#v}"
		for variable in "Version=${release}" "Major=${major}" "Minor=${minor}" TreeState=archive; do
			printf -- ' -X k8s.io/component-base/version.git%s' "${variable}"
		done
		;;
	*/containerd)
		printf -- ' -X github.com/containerd/containerd/v2/version.Version=%s' \
			"$(version "$1" github.com/containerd/containerd/v2)"
		;;
	esac
}

mkdir -p "$1"
out=$(realpath "$1")
new=$(mktemp -d "${out}/new.XXXXXX")
trap 'rm -rf "${new}"' EXIT

# build FOLDER PACKAGE... builds programs with the versions in the go.mod file of a folder.
build() {
	local wanted mark=${out}/${1##*/}.sha256
	wanted=$( (cat "$1/go.mod" hack/node.sh && go env GOVERSION GOARCH) | sha256sum)
	[ "$(cat "${mark}" 2>/dev/null)" != "${wanted}" ] || return 0
	echo "Building the programs of a node from $1 into ${out} (minutes, once)"
	# The tags leave out snapshotters that need C libraries or devices.
	go -C "$1" build -tags 'no_btrfs no_zfs no_devmapper' -ldflags "$(flags "$1")" \
		-o "${new}/" "${@:2}"
	mv "${new}"/* "${out}"
	echo "${wanted}" >"${mark}"
}

build test/devcluster/kubernetes k8s.io/kubernetes/cmd/{kubelet,kube-proxy}
build test/node/programs/containerd tool
build test/node/programs/cni tool
