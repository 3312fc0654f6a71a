#!/usr/bin/env bash
# Runs the end-to-end tests that are part of `make test`, which calls it: csi-sanity. It says in one
# line what it leaves out: tests on real nodes, whose programs an empty clone compiles too long, and
# csi-sanity if it is not root or a program is missing.
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
real_nodes="tests on real nodes (\`make test-e2e\`)"
if [ ${#missing[@]} -gt 0 ]; then
	echo "Left out: ${real_nodes}, and csi-sanity (\`make test-csi-sanity\`), which needs $(
		IFS=,
		echo "${missing[*]}"
	)"
	exit 0
fi
echo "Left out: ${real_nodes}"
exec "${MAKE:-make}" --no-print-directory test-csi-sanity
