#!/usr/bin/env bash
# Runs every fuzz target of every package in this folder for some time:
#
#	.ci/fuzz.sh 5s
set -euo pipefail

time=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

# once fuzzes one target. Up to Go 1.26, the end of the time can end a target
# with "context deadline exceeded" (https://go.dev/issue/75804). That counts as
# found nothing, if nothing was found: a failing input is always written.
once() {
	local target=$1 output
	if output=$("$dir/fuzz" -test.run '^$' -test.fuzz "^$target\$" -test.fuzztime "$time" -test.fuzzcachedir "$dir/cache" 2>&1); then
		printf '%s\n' "$output" | tail -n 2
		# A target that is not there passes.
		! grep -q 'no fuzz tests to fuzz' <<<"$output"
		return
	fi
	printf '%s\n' "$output"
	grep -q '^    context deadline exceeded$' <<<"$output" &&
		! grep -q -e 'Failing input written' -e '_test.go:' -e '^panic:' <<<"$output" || return 1
	echo "fuzz: $target: only the time ran out"
}

ran=0
for package in $(grep -rl --include='*_test.go' '^func Fuzz' . | xargs -n 1 dirname | sort -u); do
	cd "$package"
	go test -c -fuzz . -o "$dir/fuzz"
	for target in $(grep -ho '^func Fuzz[A-Za-z0-9_]*' ./*_test.go | cut -d' ' -f2); do
		echo "== $package: $target"
		once "$target" </dev/null
		ran=$((ran + 1))
	done
	cd "$OLDPWD"
done

if [ "$ran" = 0 ]; then
	echo "fuzz: there is no target" >&2
	exit 1
fi
echo "fuzz: $ran targets, $time each"
