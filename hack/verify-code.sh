#!/usr/bin/env bash
# Fails if generated code or CustomResourceDefinitions of CSI-Addons differ from the output of the
# generators. It generates into a clean copy, as hack/verify.sh does. `make verify` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

copy=$(mktemp -d)
trap 'rm -rf "${copy}"' EXIT

folders=(pkg/csiaddons assets/csi-addons)
cp -R --parents "${folders[@]}" "${copy}"
find "${copy}" \( -name 'zz_generated.*' -o -name '*.pb.go' -o -path '*/crd/generated/*' \) \
	-delete
hack/code.sh "${copy}"
for folder in "${folders[@]}"; do
	if ! diff -ru "${folder}" "${copy}/${folder}"; then
		echo >&2 "generated files in ${folder} are out of date: run \`make update\`"
		exit 1
	fi
done
