#!/usr/bin/env bash
# Runs golangci-lint once over the modules given, in a workspace, so that what they have in
# common is loaded and checked once:
#
#	.ci/lint.sh MODULE...
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go build "-modfile=$PWD/internal/tools/go.mod" -o "$dir/golangci-lint" github.com/golangci/golangci-lint/v2/cmd/golangci-lint
export GOWORK=$dir/go.work
go work init "$@"
"$dir/golangci-lint" run --allow-parallel-runners "${@/%//...}"
