#!/usr/bin/env bash
# Builds Helm 3 or 4 ($2) as the program $1, from a Go module. `make test-helm` calls it.
set -euo pipefail

case $2 in
3) version=v3.22.0 ;;
4) version=v4.3.1 ;;
*)
	echo >&2 "usage: $0 PROGRAM 3|4"
	exit 2
	;;
esac
echo "Building Helm ${version} (once; it takes minutes)"
mkdir -p "${1%/*}"
new=$(mktemp -d "$1.XXXXXX")
trap 'rm -rf "${new}"' EXIT
GOBIN=$(realpath "${new}") go install -ldflags '-s -w' "helm.sh/helm/v$2/cmd/helm@${version}"
mv "${new}/helm" "$1"
