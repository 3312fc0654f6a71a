#!/usr/bin/env bash
# Fails if the checked-in assets or pictures differ from what `make update` writes. It generates
# into a clean copy, so it needs no git and detects new, changed and deleted files. `make verify`
# calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy=$(mktemp -d)
trap 'rm -rf "${copy}"' EXIT

cp -R assets "${copy}/assets"
rm -rf "${copy}"/assets/drivers/*/generated \
	"${copy}"/assets/{csi-addons,helm,monitoring/kubernetes}/generated
hack/crds.sh "${copy}"
go run -buildvcs=false ./cmd/asset-generator --assets "${copy}/assets"
if ! diff -ru assets "${copy}/assets"; then
	echo >&2 "a folder generated in assets is out of date: run \`make update\`"
	exit 1
fi
mkdir "${copy}/images"
go -C hack/pictures run -buildvcs=false . ../.. "${copy}/images"
if ! diff -ru docs/images "${copy}/images"; then
	echo >&2 "docs/images is out of date: run \`make update\`"
	exit 1
fi
