#!/usr/bin/env bash
# Runs the test that compares a digest of delays on amd64, 386 and arm64: a
# delay must not depend on how a processor rounds. It is for amd64 Linux, where
# an emulator stands in for the arm64; it installs nothing.
set -euo pipefail

test=TestDelayDigest
qemu=qemu-aarch64-static

command -v "$qemu" >/dev/null || {
	echo "arch: $qemu is missing; on Debian it is in qemu-user-static" >&2
	exit 1
}

for arch in amd64 386 arm64; do
	runner=env
	[ "$arch" != arm64 ] || runner=$qemu
	if ! output=$(CGO_ENABLED=0 GOARCH=$arch go test -exec "$runner" -v -run "^$test\$" . 2>&1); then
		printf '%s\n' "$output"
		echo "arch: $arch: failed" >&2
		exit 1
	fi
	# A test that is not there passes, so its name has to appear.
	if ! grep -q "^--- PASS: $test" <<<"$output"; then
		echo "arch: $arch: $test did not run" >&2
		exit 1
	fi
	echo "arch: $arch: $(tail -n 1 <<<"$output")"
done
