#!/usr/bin/env bash
# Releases two versions into clones, one after the other, makes a module proxy of the tags
# of each, and lets a consumer outside of the tree get and build the root and every other
# module from there, and from main. A module that would drag a replace or a version that
# does not exist is a failure.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

root=$(go list -m)
dir=$(mktemp -d)
trap 'chmod -R u+w "$dir"; rm -rf "$dir"' EXIT
cache=$(go env GOMODCACHE)
usual=$(go env GOPROXY)
flags="${GOFLAGS:-} -modcacherw" # with other flags, all dependencies would be compiled anew

# released releases a version of the clone $1 into the clone $2.
released() {
	"$1/.ci/release.sh" "$3" "$2" >"$dir/log" 2>&1 || {
		cat "$dir/log" >&2
		exit 1
	}
	[ "$(git -C "$2" describe --tags --abbrev=0 --match 'v[0-9]*')" = "$3" ] || {
		echo "release-check: git describe does not find $3 on main" >&2
		exit 1
	}
}

# consumed gets every module of version $2 from the clone $1. It runs in a shell of its own.
consumed() (
	cd "$1"
	mapfile -t tags < <(git tag --points-at HEAD~1)
	. .ci/vcs.sh "$1" "$root" "$2"
	trap forget EXIT
	for tag in "${tags[@]}"; do
		module=$root$([ "$tag" = "$2" ] || echo "/${tag%/*}")
		mod=$(cd / && go mod download -json "$module@$2" | sed -n 's/^\t"GoMod": "\(.*\)",$/\1/p')
		if grep -nE '^replace|^\t?replace|v0\.0\.0-00010101' "$mod" >&2; then
			echo "release-check: $module has a replace, or requires what does not exist" >&2
			exit 1
		fi
	done
	# What @main is to who gets it: a replace does not count there. A module may do without
	# the root.
	for module in "${tags[@]%/*}"; do
		[ ! -f "$module/go.mod" ] || [ "$module" = "$2" ] || ! grep -q "$root v" "$module/go.mod" ||
			grep -q "^	$root $2\$" "$module/go.mod" || {
			echo "release-check: $module does not require $root $2 on main" >&2
			exit 1
		}
	done
	# What was downloaded is a proxy as it is. The consumer asks nobody else for our modules.
	proxy=$dir/proxy-$2
	mkdir -p "$proxy/${root%/*}"
	cp -r "$cache/cache/download/$root" "$proxy/${root%/*}"
	forget
	unset GOPRIVATE GIT_CONFIG_COUNT
	export GOPROXY="file://$proxy,file://$cache/cache/download,$usual" GOFLAGS="$flags -mod=mod" GOBIN=$dir/bin
	for tag in "${tags[@]}"; do
		module=$root$([ "$tag" = "$2" ] || echo "/${tag%/*}")
		mkdir -p "$dir/consumer/$tag"
		cd "$dir/consumer/$tag"
		if [[ $tag == cmd/* ]]; then
			GOFLAGS=$flags go install "$module@$2"
			echo "ok   go install $module@$2"
			continue
		fi
		go mod init example.com/consumer >/dev/null 2>&1
		go get "$module@$2" 2>"$dir/log" || {
			cat "$dir/log" >&2
			echo "release-check: go get $module@$2 failed" >&2
			exit 1
		}
		printf 'package main\n\nimport _ "%s"\n\nfunc main() {}\n' "$module" >main.go
		go build -o /dev/null .
		echo "ok   go get $module@$2"
	done
)

first=v0.0.1-check.$$ second=v0.0.2-check.$$
released "$PWD" "$dir/first" "$first"
consumed "$dir/first" "$first"
released "$dir/first" "$dir/second" "$second"
consumed "$dir/second" "$second"

# refused tries to release version $1 of the second clone, and expects to be told $2. No tag
# may be left behind.
refused() {
	local said before
	before=$(git -C "$dir/second" tag)
	if said=$("$dir/second/.ci/release.sh" "$1" 2>&1) || [[ $said != *"$2"* ]]; then
		printf '%s\nrelease-check: %s is not refused with "%s"\n' "$said" "$1" "$2" >&2
		exit 1
	fi
	[ "$(git -C "$dir/second" tag)" = "$before" ] || {
		echo "release-check: a release that was refused has left a tag" >&2
		exit 1
	}
	echo "ok   refused: $2"
}

third=v0.0.3-check.$$
refused 0.0.3 "must be like"
refused "$second" "is tagged already"
echo >>"$dir/second/go.mod"
refused "$third" "changes that are not committed"
git -C "$dir/second" checkout --quiet .
mkdir "$dir/second/forgotten"
echo "module example.com/forgotten" >"$dir/second/forgotten/go.mod"
git -C "$dir/second" add forgotten
git -C "$dir/second" -c user.name=check -c user.email=check@localhost commit --quiet --message="a module"
refused "$third" "forgotten has a go.mod"
git -C "$dir/second" reset --quiet --hard HEAD~1
git -C "$dir/second" remote set-url origin https://127.0.0.1:1/nobody
PUSH=1 refused "$third" "nothing was pushed"
echo "release-check: passed"
