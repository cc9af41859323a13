#!/usr/bin/env bash
# Measures everyone, so many rounds, each in processes of its own:
#
#	./measure.sh 9
#
# The rounds of all measurements take turns, so that a machine that is busy for a
# while does not fall on one of them alone.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")"

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
go test -c -o "$dir/peers.test" ./peers
go test -c -o "$dir/http.test" ./httppeers
go build -o "$dir/sleepers" ./sleepers

for round in $(seq "$1"); do
	echo "round $round of $1" >&2
	"$dir/peers.test" -test.run '^$' -test.bench . -test.benchtime 100ms >>"$dir/peers.txt"
	"$dir/http.test" -test.run '^$' -test.bench . -test.benchtime 100ms >>"$dir/http.txt"
	# Memory hardly varies, and takes minutes.
	[ $((round % 3)) != 1 ] || "$dir/sleepers" >>"$dir/sleepers.txt"
done
mv "$dir"/{peers,http,sleepers}.txt raw/
