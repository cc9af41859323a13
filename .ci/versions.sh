#!/usr/bin/env bash
# Raises what the go.mod files of the modules given require, until all modules for the
# same Go require the same version of a dependency:
#
#	.ci/versions.sh MODULE...
#
# A dependency in two versions is downloaded, compiled and checked twice. TestVersions of
# internal/test/repocheck finds it.
set -euo pipefail

# requirements prints "GO PATH VERSION MODULE" for every requirement of a module.
requirements() {
	for module in "$@"; do
		awk -v module="$module" '$1 == "go" { split($2, go, ".") }
			$1 == "require" && $2 != "(" { print go[1] "." go[2], $2, $3, module }
			/^\t/ && $2 ~ /^v/ && $2 !~ /^v0\.0\.0-00010101/ { print go[1] "." go[2], $1, $2, module }' "$module/go.mod"
	done
}

# behind prints "MODULE PATH@VERSION" for every requirement that another module has newer.
# To sort, v1.2.3-rc.1 comes before v1.2.3 if its hyphen is a tilde.
behind() {
	requirements "$@" | awk '{ sub("-", "~", $3); print }' | sort -k1,1 -k2,2 -k3,3rV |
		awk '{ sub("~", "-", $3) } $1 " " $2 != last { last = $1 " " $2; newest = $3 }
			$3 != newest { print $4, $2 "@" newest }' | sort
}

for _ in $(seq 20); do
	found=$(behind "$@")
	[ -n "$found" ] || exit 0
	echo "$found"
	cut -d' ' -f1 <<<"$found" | uniq | while read -r module; do
		mapfile -t raise < <(awk -v module="$module" '$1 == module { print "-require=" $2 }' <<<"$found")
		(cd "$module" && go mod edit "${raise[@]}" && go mod tidy)
	done
done
echo "versions: still not in step" >&2
exit 1
