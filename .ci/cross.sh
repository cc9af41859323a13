#!/usr/bin/env bash
# Compiles the root module for systems that its tests do not run on here; for
# those where somebody will run them, its tests too. "all" adds the rare systems.
set -euo pipefail
export CGO_ENABLED=0

vetted=(windows/amd64 darwin/arm64) built=(js/wasm)
if [ "${1:-}" = all ]; then
	vetted+=(freebsd/amd64) built+=(plan9/amd64 wasip1/wasm)
fi
for target in "${vetted[@]}"; do
	echo "cross: $target: go vet ./..."
	GOOS=${target%/*} GOARCH=${target#*/} go vet ./...
done
for target in "${built[@]}"; do
	echo "cross: $target: go build ./..."
	GOOS=${target%/*} GOARCH=${target#*/} go build ./...
done
