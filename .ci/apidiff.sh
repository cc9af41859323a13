#!/usr/bin/env bash
# Compares the exported API of the packages of the root module with docs/stability.tsv, where a
# stable name that is gone or has become another thing is a failure, and with that of the last tag.
# Before 1.0 another change that is not compatible is shown; from then on it is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

go run ./internal/stability -check
last=$(git describe --tags --abbrev=0 --match 'v[0-9]*' 2>/dev/null || true)
if [ -z "$last" ]; then
	echo "apidiff: compared with docs/stability.tsv; there is no tag yet"
	exit 0
fi
old=$(mktemp -d)
trap 'git worktree remove --force "$old"' EXIT
git worktree add --quiet --detach "$old" "$last"
tool=(go tool "-modfile=$PWD/internal/tools/go.mod" apidiff)
incompatible=
for package in $(go list ./... | grep -vE '/(internal|examples|docs|lab)(/|$)'); do
	(cd "$old" && "${tool[@]}" -w "$old/api" "$package") 2>/dev/null || continue # it is new
	changes=$("${tool[@]}" "$old/api" "$package")
	[ -z "$changes" ] || printf '%s\n%s\n' "$package" "$changes"
	[[ $changes != *Incompatible* ]] || incompatible=yes
done
if [ -n "$incompatible" ] && [[ $last != v0.* ]]; then
	echo "apidiff: not compatible with $last" >&2
	exit 1
fi
echo "apidiff: compared with $last"
