#!/usr/bin/env bash
# Runs the end-to-end tests that are part of `make test`, which calls it: csi-sanity. If it is not
# root, or a program is missing, it says in one line what it leaves out.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

missing=()
[ "$(id -u)" = 0 ] || missing+=(root)
while read -r program package; do
	PATH=${PATH}:/usr/sbin:/sbin command -v "${program}" >/dev/null ||
		missing+=("Debian's package ${package}")
done <<-END
	ip iproute2
	unshare util-linux
	mount mount
	mkfs.ext4 e2fsprogs
	udevadm udev
END
if [ ${#missing[@]} -gt 0 ]; then
	echo "Left out: csi-sanity against both drivers, which needs $(
		IFS=,
		echo "${missing[*]}"
	). \`make test-csi-sanity\` runs it"
	exit 0
fi
exec "${MAKE:-make}" --no-print-directory test-csi-sanity
