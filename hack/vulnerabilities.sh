#!/usr/bin/env bash
# Fails if the packages $2, ... of the module in the folder $1 call functions with known
# vulnerabilities. The variable GOVULNDB is the address of the vulnerability database; if it is not
# set, the script only says so. `make verify-supply-chain` calls it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

if [ -z "${GOVULNDB:-}" ]; then
	echo "No search for known vulnerabilities: set GOVULNDB, for example to https://vuln.go.dev"
	exit 0
fi
if [ ! -x bin/tools/govulncheck ]; then
	echo >&2 "bin/tools/govulncheck does not exist: run \`make verify-supply-chain\`, which builds it"
	exit 1
fi
exec bin/tools/govulncheck -C "$1" -db "${GOVULNDB}" "${@:2}"
