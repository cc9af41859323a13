#!/usr/bin/env bash
# Runs the test that compares a digest of delays on amd64, arm64 and a 32-bit processor: a
# delay must not depend on how a processor rounds. It is for amd64 Linux, where
# emulators stand in for what is missing; it installs nothing.
set -euo pipefail

test=TestDelayDigest
qemu=qemu-aarch64-static

command -v "$qemu" >/dev/null || {
	echo "arch: $qemu is missing; on Debian it is in qemu-user-static" >&2
	exit 1
}

bits32=$(.ci/32-bit.sh)
for processor in "amd64 env" "$bits32" "arm64 $qemu"; do
	read -r arch runner <<<"$processor"
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
