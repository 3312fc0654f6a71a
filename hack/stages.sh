#!/usr/bin/env bash
# Runs the make targets in its arguments one after the other, and prints a table with their results
# and times. It stops after a failed target, or goes on to the next one if the first argument is
# --keep-going; then it fails at the end. `make test`, `make test-all` and `make test-root` call it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

keep_going=
if [ "${1:-}" = --keep-going ]; then
	keep_going=yes
	shift
fi
table='' failed=()
for stage in "$@"; do
	echo "==> ${stage}"
	start=${SECONDS} result=passed
	if ! "${MAKE:-make}" --no-print-directory "${stage}"; then
		result=failed
		failed+=("${stage}")
	fi
	row=$(printf '%-20s %s %6d s' "${stage}" "${result}" $((SECONDS - start)))
	echo "==> ${row}"
	table+=${row}$'\n'
	[ "${result}" = passed ] || [ "${keep_going}" ] || break
done
printf '\n%s%-20s        %6d s\n' "${table}" total "${SECONDS}"
for stage in "${failed[@]}"; do
	echo >&2 "==> ${stage} failed; \`make ${stage}\`${TAGS:+ with TAGS=${TAGS}} repeats it alone"
done
[ ${#failed[@]} = 0 ]
