#!/usr/bin/env bash
# Builds the programs of the Operator Lifecycle Manager, and copies its CustomResourceDefinitions,
# into the folder $1. It skips what is up to date. `make olm` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p "$1"
out=$(realpath "$1")
programs=test/integration/programs
wanted=$( (cat "${programs}"/*/go.mod hack/olm.sh && go env GOVERSION GOARCH) | sha256sum)
[ "$(cat "${out}/programs.sha256" 2>/dev/null)" != "${wanted}" ] || exit 0
echo "Building OLM into ${out} (15 minutes, once)"
go -C "${programs}/olm" build -ldflags '-s -w' -o "${out}/" tool
# Without these tags opm would need a C compiler.
go -C "${programs}/opm" build -ldflags '-s -w' -o "${out}/" -tags \
	containers_image_openpgp,exclude_graphdriver_btrfs,btrfs_noversion,exclude_graphdriver_devicemapper,json1 \
	tool
module=$(go -C "${programs}/olm" list -m -f '{{.Dir}}' \
	github.com/operator-framework/operator-lifecycle-manager)
rm -rf "${out}/crds"
mkdir "${out}/crds"
install -m 644 "${module}"/deploy/chart/crds/*.yaml "${out}/crds/"
echo "${wanted}" >"${out}/programs.sha256"
