#!/usr/bin/env bash
# Runs every fuzz target of every package of the given modules for some time:
#
#	.ci/fuzz.sh 5s . examples/sql
set -euo pipefail

time=$1
shift

# once fuzzes one target. Up to Go 1.26, the end of the time can end a target
# with "context deadline exceeded" (https://go.dev/issue/75804). That counts as
# found nothing, if nothing was found: a failing input is always written.
once() {
	local package=$1 target=$2 output
	if output=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$time" "$package" 2>&1); then
		printf '%s\n' "$output" | tail -n 2
		return
	fi
	printf '%s\n' "$output"
	grep -q '^    context deadline exceeded$' <<<"$output" &&
		! grep -q -e 'Failing input written' -e '_test.go:' -e '^panic:' <<<"$output" || return 1
	echo "fuzz: $target: only the time ran out"
}

ran=0
for module in "$@"; do
	cd "$module"
	# The list has the targets of a package and then a line with its name.
	list=$(go test -list '^Fuzz' ./...)
	while read -r package target; do
		echo "== $package: $target"
		once "$package" "$target" </dev/null
		ran=$((ran + 1))
	done < <(awk '/^Fuzz/ { targets[n++] = $1 }
		/^ok/ { for (i = 0; i < n; i++) print $2, targets[i]; n = 0 }' <<<"$list")
	cd "$OLDPWD"
done

if [ "$ran" = 0 ]; then
	echo "fuzz: there is no target" >&2
	exit 1
fi
echo "fuzz: $ran targets, $time each"
