#!/usr/bin/env bash
# Prints the 32-bit architecture whose tests this machine can run, and by what: 386 if the
# kernel runs such programs, as some virtual machines do not, or else arm, emulated.
set -euo pipefail

qemu=qemu-arm-static

if CGO_ENABLED=0 GOARCH=386 go test -run '^$' ./internal/sat >/dev/null 2>&1; then
	echo 386 env
elif command -v "$qemu" >/dev/null; then
	echo arm "$qemu"
else
	echo "32-bit: no program for 386 runs here, and $qemu is missing; on Debian it is in qemu-user-static" >&2
	exit 1
fi
