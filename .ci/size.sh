#!/bin/sh
# Prints what a program grows by if it imports the library: stripped binaries, in bytes.
set -eu
dir=$(mktemp -d internal/size.XXXXXX)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM
module=github.com/seed-5ff3c98e/retry
size() { # name, imports, statement
	mkdir "$dir/$1"
	printf 'package main\nimport (\n%s\n)\nfunc main() { %s }\n' "$2" "$3" >"$dir/$1/main.go"
	go build -ldflags='-s -w' -o "$dir/$1/out" "./$dir/$1"
	wc -c <"$dir/$1/out"
}
get='_, _ = http.Get("http://localhost")' run='_ = (&retry.Policy{}).Execute(context.Background(), func(context.Context) error { return nil })'
hello=$(size hello '"fmt"' 'fmt.Println()')
retry=$(size retry "\"context\"; \"fmt\"; \"$module\"" "fmt.Println(); $run")
http=$(size http '"net/http"' "$get")
both=$(size both "\"context\"; \"net/http\"; \"$module\"" "$get; $run")
client=$(size client "\"net/http\"; \"$module/retryhttp\"" '_, _ = (&http.Client{Transport: &retryhttp.Transport{}}).Get("http://localhost")')
echo "hello world        $hello"
echo "  and retry       +$((retry - hello))"
echo "net/http           $http"
echo "  and retry       +$((both - http))"
echo "  and retryhttp   +$((client - http))"
