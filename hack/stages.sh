#!/usr/bin/env bash
# Runs the make targets in its arguments one after the other, and prints how long each takes.
# `make test` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for stage in "$@"; do
	echo "==> ${stage}"
	start=${SECONDS}
	if ! "${MAKE:-make}" --no-print-directory "${stage}"; then
		echo >&2 "==> ${stage} failed after $((SECONDS - start)) s; \`make ${stage}\` repeats it alone"
		exit 1
	fi
	echo "==> ${stage} passed in $((SECONDS - start)) s"
done
echo "==> all passed in ${SECONDS} s"
