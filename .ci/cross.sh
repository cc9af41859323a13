#!/usr/bin/env bash
# Compiles the root module for systems that its tests do not run on here; for
# those where somebody will run them, its tests too.
set -euo pipefail
export CGO_ENABLED=0

for target in windows/amd64 darwin/arm64 freebsd/amd64; do
	echo "cross: $target: go vet ./..."
	GOOS=${target%/*} GOARCH=${target#*/} go vet ./...
done
for target in plan9/amd64 js/wasm wasip1/wasm; do
	echo "cross: $target: go build ./..."
	GOOS=${target%/*} GOARCH=${target#*/} go build ./...
done
