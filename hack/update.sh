#!/usr/bin/env bash
# Writes everything that is generated and checked in. `make update` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

hack/crds.sh
go run -buildvcs=false ./hack/choices
# The Helm chart contains the CustomResourceDefinitions and the schemas.
go run -buildvcs=false ./cmd/asset-generator --assets assets
# The plots and the view in docs.
go -C hack/pictures run -buildvcs=false . ../.. ../../docs/images
