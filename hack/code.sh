#!/usr/bin/env bash
# Writes the generated code and the CustomResourceDefinitions of CSI-Addons into the tree $1, by
# default this one. `make update` and hack/verify-code.sh call it; `make` builds the tools.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=${1:-.}
tools=${TOOLS:-${PWD}/bin/tools}
api=pkg/csiaddons/api/v1alpha1

"${tools}/controller-gen" object "paths=./${api}" "output:dir=${root}/${api}"
# Without the option, Kubernetes would drop the labels and annotations of jobTemplate.metadata.
"${tools}/controller-gen" crd:generateEmbeddedObjectMeta=true "paths=./${api}" \
	"output:dir=${root}/assets/csi-addons/crd/generated"
go run -buildvcs=false ./hack/protobuf "${tools}" "${root}" pkg/csiaddons/wire/wire.proto
