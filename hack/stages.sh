#!/usr/bin/env bash
# Runs the make targets in its arguments one after the other, and prints how long each takes. An
# argument with several targets runs them at the same time: tests that mostly wait. `make test`
# calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for stage in "$@"; do
	read -ra targets <<<"${stage}"
	echo "==> ${stage}"
	start=${SECONDS}
	flags=(--no-print-directory --jobs="${#targets[@]}" --output-sync=target)
	if ! "${MAKE:-make}" "${flags[@]}" "${targets[@]}"; then
		echo >&2 "==> ${stage} failed after $((SECONDS - start)) s; \`make ${stage}\` repeats it alone"
		exit 1
	fi
	echo "==> ${stage} passed in $((SECONDS - start)) s"
done
echo "==> all passed in ${SECONDS} s"
