#!/usr/bin/env bash
# Sees to it that programs are there, and names those that are not before anything is
# compiled:
#
#	.ci/install.sh program:debian-package ...
#
# What is missing is installed where apt-get is there and may be used. Otherwise it ends
# with status 1.
set -euo pipefail

missing() {
	for pair in "$@"; do
		[ -x "$(command -v "${pair%%:*}" || ls -d /usr/lib/postgresql/*/bin/"${pair%%:*}" 2>/dev/null | tail -n 1)" ] ||
			echo "${pair#*:}"
	done | sort -u
}

mapfile -t packages < <(missing "$@")
[ "${#packages[@]}" -gt 0 ] || exit 0

apt=(env DEBIAN_FRONTEND=noninteractive apt-get -qq)
[ "$(id -u)" = 0 ] || apt=(sudo -n "${apt[@]}")
if command -v apt-get >/dev/null && "${apt[@]}" --version >/dev/null 2>&1; then
	echo "install: ${packages[*]}"
	"${apt[@]}" update && "${apt[@]}" install -y --no-install-recommends "${packages[@]}" || true
	mapfile -t packages < <(missing "$@")
fi
if [ "${#packages[@]}" -gt 0 ]; then
	echo "install: missing, and cannot be installed from here; the names of the packages in Debian: ${packages[*]}" >&2
	exit 1
fi
