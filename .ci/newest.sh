#!/usr/bin/env bash
# Runs the tests of the modules given with the newest release of everything that their go.mod
# files require, and leaves these files as they are:
#
#	.ci/newest.sh MODULE...
#
# All modules are tried, and the last line names those that fail. A driver that changes what its
# errors say is found here before a user meets it.
set -euo pipefail

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# newest runs the tests of the module in this directory.
newest() {
	local direct
	cp go.mod go.sum "$dir"
	direct=$(go list -m -f '{{if not (or .Main .Indirect .Replace)}}{{.Path}}@latest{{end}}' all) || return
	# shellcheck disable=SC2086 # a list
	go get -modfile="$dir/go.mod" $direct && go mod tidy -modfile="$dir/go.mod" &&
		go test -modfile="$dir/go.mod" -timeout 20m ./...
}

failed=
for module; do
	echo "== $module"
	(cd "$module" && newest) || failed+=" $module"
done
if [ -n "$failed" ]; then
	echo "newest: FAILED:$failed" >&2
	exit 1
fi
