# Has the go command take the modules of this repository from a clone, by their tags:
#
#	. .ci/vcs.sh clone module-path version
#
# Everything else comes from where it came before, and is compiled once: the module cache
# is the usual one. forget takes this version out of it again, because it was never
# published.
cache=$(go env GOMODCACHE)
export GOPRIVATE="$2" GOFLAGS=-modcacherw GOWORK=off GONOSUMDB='*' GOSUMDB=off
export GIT_CONFIG_COUNT=1 GIT_CONFIG_KEY_0="url.file://$1/.git.insteadOf" GIT_CONFIG_VALUE_0="https://$2"

eval "forget() {
	find '$cache/${2%/*}' '$cache/cache/download/${2%/*}' -depth \\
		\\( -name '*@$3' -o -path '*/@v/$3.*' \\) -exec rm -rf {} + 2>/dev/null || true
}"
