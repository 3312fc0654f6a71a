#!/usr/bin/env bash
# Builds csi-sanity, and the drivers that it tests, from Go modules into the folder $1. It skips
# what is up to date. `make test-csi-sanity` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
export GOFLAGS='-mod=readonly -trimpath -buildvcs=false' GOWORK=off CGO_ENABLED=0

mkdir -p "$1"
out=$(realpath "$1")
new=$(mktemp -d "${out}/new.XXXXXX")
trap 'rm -rf "${new}"' EXIT
tests=test/e2e/programs/csi-test drivers=test/node/images/programs

# Its sources are in this repository, so Go decides what is up to date.
go build -ldflags '-s -w' -o "${out}/" ./test/node/standin/nfsplugin

wanted=$( (cat "${tests}/go.mod" "${drivers}/go.mod" hack/e2e.sh &&
	go env GOVERSION GOARCH) | sha256sum)
[ "$(cat "${out}/csi-sanity.sha256" 2>/dev/null)" != "${wanted}" ] || exit 0
echo "Building csi-sanity and the drivers into ${out} (some minutes, once)"
go -C "${tests}" build -ldflags '-s -w' -o "${new}/" tool
go -C "${drivers}" build -ldflags '-s -w' -o "${new}/" \
	k8s.io/cloud-provider-openstack/cmd/{cinder,manila}-csi-plugin
mv "${new}"/* "${out}"
echo "${wanted}" >"${out}/csi-sanity.sha256"
