#!/usr/bin/env bash
# Builds the programs of a real node from Go modules into the folder $1: kubelet, kube-proxy,
# containerd and network plugins. It skips what is up to date. `make node` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Each folder contains a go.mod with the versions of some programs.
modules=test/node/programs

# version FOLDER MODULE prints the version of a module.
version() { go -C "${modules}/$1" list -m -f '{{.Version}}' "$2"; }

# flags FOLDER prints the flags of the linker for the programs of a folder.
flags() {
	local release major minor variable
	printf -- '-s -w'
	case $1 in
	kubernetes)
		release=$(version "$1" k8s.io/kubernetes)
		IFS=. read -r major minor _ <<<"${release#v}"
		for variable in "Version=${release}" "Major=${major}" "Minor=${minor}" TreeState=archive; do
			printf -- ' -X k8s.io/component-base/version.git%s' "${variable}"
		done
		;;
	containerd)
		printf -- ' -X github.com/containerd/containerd/v2/version.Version=%s' \
			"$(version "$1" github.com/containerd/containerd/v2)"
		;;
	esac
}

mkdir -p "$1"
out=$(realpath "$1")
new=$(mktemp -d "${out}/new.XXXXXX")
trap 'rm -rf "${new}"' EXIT

for folder in kubernetes containerd cni; do
	wanted=$( (cat "${modules}/${folder}/go.mod" hack/node.sh && go env GOVERSION GOARCH) | sha256sum)
	[ "$(cat "${out}/${folder}.sha256" 2>/dev/null)" != "${wanted}" ] || continue
	echo "Building the programs of a node from ${modules}/${folder} into ${out} (minutes, once)"
	# The tags leave out snapshotters that need C libraries or devices.
	go -C "${modules}/${folder}" build -tags 'no_btrfs no_zfs no_devmapper' \
		-ldflags "$(flags "${folder}")" -o "${new}/" tool
	mv "${new}"/* "${out}"
	echo "${wanted}" >"${out}/${folder}.sha256"
done
