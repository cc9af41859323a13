#!/usr/bin/env bash
# Releases a version into a clone, makes a module proxy of its tags, and lets a consumer
# outside of the tree get and build the root and every other module from there. A module
# that would drag a replace or a version that does not exist is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${VERSION:-v0.0.1-check.$$}
here=$PWD
root=$(go list -m)
dir=$(mktemp -d)
forget() { :; }
trap 'forget; chmod -R u+w "$dir"; rm -rf "$dir"' EXIT

ci/release.sh "$version" "$dir/clone" >"$dir/log" 2>&1 || {
	cat "$dir/log" >&2
	exit 1
}
cd "$dir/clone"
mapfile -t tags < <(git tag --points-at HEAD)
. "$here/ci/vcs.sh" "$dir/clone" "$root" "$version"
for tag in "${tags[@]}"; do
	module=$root$([ "$tag" = "$version" ] || echo "/${tag%/*}")
	mod=$(cd / && go mod download -json "$module@$version" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
	if grep -nE '^replace|^\t?replace|v0\.0\.0-00010101' "$mod" >&2; then
		echo "release-check: $module has a replace, or requires what does not exist" >&2
		exit 1
	fi
done

# What was downloaded is a proxy as it is. The consumer asks nobody else for our modules.
mkdir -p "$dir/proxy/${root%/*}"
cp -r "$cache/cache/download/$root" "$dir/proxy/${root%/*}"
forget
usual=$(go env GOPROXY)
unset GOPRIVATE GIT_CONFIG_COUNT
export GOPROXY="file://$dir/proxy,file://$cache/cache/download,$usual" GOFLAGS='-mod=mod -modcacherw'
for tag in "${tags[@]}"; do
	module=$root$([ "$tag" = "$version" ] || echo "/${tag%/*}")
	mkdir -p "$dir/consumer/$tag"
	cd "$dir/consumer/$tag"
	go mod init example.com/consumer >/dev/null 2>&1
	go get "$module@$version" 2>"$dir/log" || {
		cat "$dir/log" >&2
		echo "release-check: go get $module@$version failed" >&2
		exit 1
	}
	if [[ $tag == cmd/* ]]; then
		go build -o /dev/null "$module"
	else
		printf 'package main\n\nimport _ "%s"\n\nfunc main() {}\n' "$module" >main.go
		go build -o /dev/null .
	fi
	echo "ok   go get $module@$version"
done
echo "release-check: passed"
