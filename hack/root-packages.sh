#!/usr/bin/env bash
# Fails with one message that lists all that this machine lacks for `make test-root`, which calls
# it: root, and packages of Debian. It installs nothing.
set -euo pipefail

# Real nodes; their images and file systems; csi-sanity; Dockerfiles; the services of OpenStack;
# alerts.
packages=(runc nftables iproute2 util-linux mount mmdebstrap e2fsprogs xfsprogs udev buildah
	python3-keystone python3-manila python3-cinder python3-nova prometheus)

format='${db:Status-Status} ${Package}\n'
installed=$(dpkg-query -W -f="${format}" "${packages[@]}" 2>/dev/null || true)
missing=()
for package in "${packages[@]}"; do
	grep -qx "installed ${package}" <<<"${installed}" || missing+=("${package}")
done
if [ "$(id -u)" != 0 ]; then
	echo >&2 'make test-root needs root'
fi
if [ ${#missing[@]} -gt 0 ]; then
	echo >&2 "make test-root needs packages of Debian 12. Run this command as root; it starts no
daemon:

    RUNLEVEL=1 apt-get install --no-install-recommends ${missing[*]}"
fi
[ "$(id -u)" = 0 ] && [ ${#missing[@]} = 0 ]
