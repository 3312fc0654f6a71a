#!/usr/bin/env bash
# Copies CustomResourceDefinitions of other projects from Go modules into the new folder $1: a test
# installs the chart beside them. `make test-helm` calls it.
set -euo pipefail

new=$(mktemp -d "$1.XXXXXX")
trap 'rm -rf "${new}"' EXIT
while read -r module files; do
	source=$(go mod download -json "${module}" | sed -n 's/^\t"Dir": "\(.*\)",$/\1/p')
	install -m 644 "${source}/${files}"/*.yaml "${new}"
done <<EOF
github.com/cert-manager/cert-manager@v1.19.1 deploy/crds
github.com/csi-addons/kubernetes-csi-addons@v0.14.0 config/crd/bases
github.com/prometheus-operator/prometheus-operator@v0.85.0 example/prometheus-operator-crd
EOF
rm -rf "$1"
mv "${new}" "$1"
