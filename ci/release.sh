#!/usr/bin/env bash
# Tags a version of every module that others use: the root, those in adapters and those
# in cmd.
#
#	ci/release.sh v0.1.0           # a dry run, in a clone that is thrown away
#	PUSH=1 ci/release.sh v0.1.0    # and the tags are pushed to origin
#	ci/release.sh v0.1.0 folder    # the clone stays in this folder
#
# On main, a nested module replaces the root by the folder beside it. What is tagged is a
# commit beside main in which it requires the version instead, so that nobody who gets it
# meets a replace.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

version=${1:-}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || {
	echo "release: VERSION is \"$version\" and must be like v0.1.0" >&2
	exit 1
}
[ -z "$(git status --porcelain --untracked-files=no)" ] || {
	echo "release: there are changes that are not committed" >&2
	exit 1
}
root=$(go list -m)
clone=${2:-}
if [ -z "$clone" ]; then
	clone=$(mktemp -d)
	trap 'chmod -R u+w "$clone"; rm -rf "$clone"' EXIT
fi
git clone --quiet . "$clone"
git -C "$clone" remote set-url origin "$(git remote get-url origin 2>/dev/null || echo none)"
cd "$clone"

mapfile -t modules < <(git ls-files ':(glob)adapters/*/go.mod' ':(glob)cmd/*/go.mod' | xargs -r -n 1 dirname)
commit() {
	git -c user.name=release -c user.email=release@localhost commit --quiet --all --allow-empty "$@"
	for module in . "${modules[@]}"; do
		tag=$([ "$module" = . ] || echo "$module/")$version
		git tag --force "$tag" >/dev/null
	done
}

git checkout --quiet --detach
for module in "${modules[@]}"; do
	(cd "$module" && go mod edit -dropreplace="$root" -require="$root@$version")
done
commit --message="Release $version"

# go.sum of a nested module has the sum of the root, whose content is settled: it does
# not depend on the nested ones.
. ci/vcs.sh "$PWD" "$root" "$version"
forget
for module in "${modules[@]}"; do
	(cd "$module" && go mod tidy)
done
forget
commit --amend --no-edit

echo "release: $version of ${#modules[@]} modules and the root"
git --no-pager tag --points-at HEAD | sed 's/^/	/'
if [ -n "${PUSH:-}" ]; then
	git push origin $(git tag --points-at HEAD)
else
	echo "release: nothing was pushed; PUSH=1 does that"
fi
