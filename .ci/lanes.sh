#!/usr/bin/env bash
# Runs the first target alone, then the targets of each lane one after the other, and the
# lanes at the same time:
#
#	.ci/lanes.sh build "test" "tidy lint"
#
# The first lane is shown as it runs, a target of another when it has ended. Tests wait for
# clocks, so the other lanes only get what the first one leaves of the processors. After a
# failure no lane begins another target. The end says how long each took, or what has failed.
set -uo pipefail

# In the idle class, where there is one, they give way at once when a test wakes up.
low=(nice -n 19)
if chrt --idle 0 true 2>/dev/null; then low+=(chrt --idle 0); fi

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

lane() {
	local number=$1 target start
	shift
	for target; do
		[ ! -e "$dir/failed" ] || return
		start=$SECONDS
		if [ "$number" -le 1 ]; then
			make --no-print-directory "$target"
		else
			"${low[@]}" make --no-print-directory "$target" >"$dir/$target" 2>&1
		fi || echo "$target" >>"$dir/failed"
		[ "$number" -le 1 ] || cat "$dir/$target"
		echo -n " $target $((SECONDS - start))s" >>"$dir/took"
	done
}

number=0
for targets; do
	# shellcheck disable=SC2086 # a lane is a list
	lane "$number" $targets &
	[ "$number" != 0 ] || wait
	((number++))
done
wait
if [ -e "$dir/failed" ]; then
	while read -r target; do # again, because the end of a log is what is read
		[ ! -e "$dir/$target" ] || { echo "== $target" && grep -vE '^(ok|\?) |^go: downloading' "$dir/$target" | tail -n 25; } >&2
	done <"$dir/failed"
	echo "ci: FAILED: $(tr '\n' ' ' <"$dir/failed")" >&2
	exit 1
fi
echo "ci: passed in $((SECONDS / 60)) min:$(cat "$dir/took")"
