#!/usr/bin/env bash
# Tags a version of every module that others use: the root, those in adapters and those
# in cmd.
#
#	.ci/release.sh v0.1.0           # a dry run, in a clone that is thrown away
#	PUSH=1 .ci/release.sh v0.1.0    # and main and the tags are pushed to origin
#	.ci/release.sh v0.1.0 folder    # the clone stays in this folder
#
# On main, a nested module replaces the root by the folder beside it, and requires the last
# version of it, which counts for who gets the module. The release is two commits on main:
# the first requires the new version without a replace, because "go install" takes no module
# that has one, and is tagged; the second has the replaces again.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

refuse() {
	echo "release: $*" >&2
	exit 1
}
version=${1:-}
[[ $version =~ ^v[0-9]+\.[0-9]+\.[0-9]+(-[0-9A-Za-z.]+)?$ ]] || refuse "VERSION is \"$version\": must be like v0.1.0"
[ -z "$(git status --porcelain --untracked-files=no)" ] || refuse "there are changes that are not committed"
! git rev-parse --quiet --verify "refs/tags/$version" >/dev/null || refuse "VERSION is $version: is tagged already"

root=$(go list -m)
published=(':(glob)adapters/*/go.mod' ':(glob)cmd/*/go.mod')
mapfile -t modules < <(git ls-files "${published[@]}" | xargs -r -n 1 dirname)
mapfile -t others < <(git ls-files ':(glob)**/go.mod' | xargs -n 1 dirname | grep -vxF -e . -f <(printf '%s\n' "${modules[@]}"))
for module in "${others[@]}"; do
	[[ $module =~ ^(docs|examples|internal|lab)(/|$) || $module =~ /internal/ ]] ||
		refuse "$module has a go.mod: is neither published nor an example, a test or a tool"
done
for module in "${modules[@]}"; do
	grep -q "^replace $root => \|^	$root => " "$module/go.mod" || refuse "$module/go.mod does not replace $root"
done

clone=${2:-}
if [ -z "$clone" ]; then
	clone=$(mktemp -d)
	trap 'chmod -R u+w "$clone"; rm -rf "$clone"' EXIT
fi
git clone --quiet . "$clone"
git -C "$clone" remote set-url origin "$(git remote get-url origin 2>/dev/null || echo none)"
cd "$clone"

commit() {
	git -c user.name=release -c user.email=release@localhost commit --quiet --all --allow-empty "$@"
}
tag() {
	for module in . "${modules[@]}"; do
		git tag --force "$([ "$module" = . ] || echo "$module/")$version" >/dev/null
	done
}
. .ci/vcs.sh "$PWD" "$root" "$version"

for module in "${modules[@]}"; do
	(cd "$module" && go mod edit -dropreplace="$root" -require="$root@$version")
done
commit --message="release: $version"
tag
# go.sum of a nested module has the sum of the root, whose content is settled: it does
# not depend on the nested ones.
forget
for module in "${modules[@]}"; do
	(cd "$module" && go mod tidy) || refuse "$module: go mod tidy failed"
done
forget
commit --amend --no-edit
tag

for module in "${modules[@]}"; do
	(cd "$module" && go mod edit -replace="$root=$(dirname "$module" | sed 's|[^/][^/]*|..|g')/..")
done
for module in "${modules[@]}" "${others[@]}"; do
	[[ $module = internal/tools* ]] || (cd "$module" && go mod tidy) || refuse "$module: go mod tidy failed"
done
commit --message="release: replace the root again after $version"

echo "release: $version of ${#modules[@]} modules and the root"
mapfile -t tags < <(git tag --points-at HEAD~1)
printf '\t%s\n' "${tags[@]}"
if [ -n "${PUSH:-}" ]; then
	git push --atomic origin HEAD:main "${tags[@]}" || refuse "nothing was pushed"
else
	echo "release: nothing was pushed; PUSH=1 does that"
fi
