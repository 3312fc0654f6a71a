#!/usr/bin/env bash
# Builds programs of the end-to-end tests from Go modules into the folder $1. $2 says which:
# csi-sanity, storage, which are Kubernetes' storage tests, or monitoring, a sidecar whose metrics
# are scraped. It skips what is up to date. `make test-csi-sanity`, `make test-storage` and `make
# test-monitoring` call it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

mkdir -p "$1"
out=$(realpath "$1")
new=$(mktemp -d "${out}/new.XXXXXX")
trap 'rm -rf "${new}"' EXIT
sanity=test/e2e/programs/csi-test storage=test/devcluster/kubernetes
drivers=test/node/images/programs

case $2 in
csi-sanity) sources=("${sanity}/go.mod") ;;
storage) sources=("${storage}"/{go.mod,storage/*.go}) ;;
monitoring) sources=("${drivers}/go.mod") ;;
*)
	echo >&2 "usage: $0 FOLDER csi-sanity|storage|monitoring"
	exit 2
	;;
esac
wanted=$( (cat "${sources[@]}" hack/e2e.sh && go env GOVERSION GOARCH) | sha256sum)
[ "$(cat "${out}/$2.sha256" 2>/dev/null)" != "${wanted}" ] || exit 0
echo "Building the programs of $2 into ${out} (minutes, once)"
case $2 in
csi-sanity) go -C "${sanity}" build -ldflags '-s -w' -o "${new}/" tool ;;
storage)
	go -C "${storage}" build -ldflags '-s -w' -o "${new}/" github.com/onsi/ginkgo/v2/ginkgo
	go -C "${storage}" test -c -ldflags '-s -w' -o "${new}/storage.test" ./storage
	;;
monitoring)
	go -C "${drivers}" build -ldflags '-s -w' -o "${new}/" \
		github.com/kubernetes-csi/external-provisioner/v6/cmd/csi-provisioner
	;;
esac
mv "${new}"/* "${out}"
echo "${wanted}" >"${out}/$2.sha256"
