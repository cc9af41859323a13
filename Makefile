# `make` prints what there is. `make ci` is what CI runs.

# Nested modules are found, not listed, so that none is forgotten. The tools'
# module holds no code.
MODULES := $(shell find . -name .git -prune -o -name testdata -prune -o \
	-path ./internal/tools -prune -o -name go.mod -print | sed 's|/go.mod$$||' | sort)

# The versions of the tools are pinned in internal/tools/go.mod. The first use
# builds a tool (golangci-lint in a minute), later ones find it in Go's cache.
TOOL := go tool -modfile=$(CURDIR)/internal/tools/go.mod

# How long every fuzz target runs, and how often every benchmark.
FUZZTIME ?= 2s
BENCHTIME ?= 300ms
BENCHCOUNT ?= 9

# What bench measures: make bench BENCHPKG=./retryhttp
BENCHPKG ?= .

# The least coverage of the root package, in percent.
COVER := 95

# What mutate mutates.
MUTATE := decide.go backoff.go jitter.go budget.go

# A workspace would hide a nested module that misses a requirement.
export GOWORK := off

# golangci-lint has go vet in it. go test would run its own for every test, and look at all
# that they import.
export GOFLAGS := $(GOFLAGS) -vet=off

# A tenth of a compiler's time goes to its garbage, which these two have memory for.
build lint: export GOGC := 200

# each runs a command in every module, and stops at the first that fails.
define each
	@set -e; for module in $(MODULES); do \
		echo "== $$module: $(1)"; (cd $$module && $(1)); \
	done
endef

.PHONY: help
help: ## print this list
	@awk -F ':.*## ' '/^[a-z0-9-]+:.*## / { printf "%-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

# Once all is compiled, each lane runs its targets one after the other. The tests of test-all
# wait more than they compute, and the other lanes compute meanwhile.
LANES := build "test-all release-check" "tidy apidiff lint cross test" "test-32 race toolchains arch allocs sleepers fuzz"

.PHONY: ci
ci: ## everything that CI runs, and how long each target took
	@.ci/lanes.sh $(LANES)

# go build would link all programs too. Tests link those that they run.
.PHONY: build
build: ## compile every module and its tests
	$(call each,go list -test -export ./... >/dev/null)

.PHONY: vet
vet: ## go vet in every module
	$(call each,go vet ./...)

.PHONY: lint
lint: actionlint ## golangci-lint, formatting included, in all modules at once
	.ci/lint.sh $(MODULES)

.PHONY: actionlint
actionlint: ## check the workflows in .github
	go tool -modfile=internal/tools/apart/go.mod actionlint

# ST1008 is left to golangci-lint, which can except a single package.
CHECKS := inherit,-ST1008

.PHONY: staticcheck
staticcheck: ## staticcheck in every module; golangci-lint has it too, which is enough for ci
	$(call each,$(TOOL) staticcheck -checks $(CHECKS) ./...)

.PHONY: retryvet
retryvet: ## our own analyzer, cmd/retryvet, in every module
	cd cmd/retryvet && go build -o $(CURDIR)/retryvet.out .
	$(call each,go vet -vettool=$(CURDIR)/retryvet.out ./...)

.PHONY: fmt
fmt: ## format every module
	$(call each,$(TOOL) golangci-lint fmt ./...)

# A test that does not say what it needs must not find a server that happens to run.
NOWHERE := RETRY_TEST_POSTGRES=postgres://127.0.0.1:1/test RETRY_TEST_MARIADB='root@tcp(127.0.0.1:1)/test' \
	RETRY_TEST_REDIS=127.0.0.1:1 RETRY_TEST_AMQP=amqp://127.0.0.1:1/ RETRY_TEST_NATS=nats://127.0.0.1:1 \
	RETRY_TEST_SQS=http://127.0.0.1:1

# What these import, clients of clouds and of Kubernetes, takes minutes to compile; or all
# of their tests need a server.
HEAVY := ./adapters/retrykube ./adapters/retrypubsub ./adapters/retrysqs ./adapters/retrywatermill \
	./examples/engines ./internal/test/real

# What is light in a heavy module.
LIGHT := $(addprefix ./internal/test/real/,browsertest site sqltest tabletest)

# For a busy machine. With the same flags, go test knows what it has run already.
PATIENCE := -flags "-timeout 20m"

# The runner prints a line for every package, and at the end what was left out and why.
# Tests that need no server wait for timers more than they compute, so modules run at once.
.PHONY: test
test: ## every test that needs nothing but Go, except those of heavy modules
	@echo "test: left to test-all: $(HEAVY)"
	@RETRY_TEST_SERVERS=none $(NOWHERE) go run ./internal/runtests $(PATIENCE) -modules 3 $(filter-out $(HEAVY),$(MODULES)) $(LIGHT)

# What takes longest comes first, and the others run beside it. The packages of a large module are
# tested as modules are: a browser computes, and would be in the way of those that come first.
LONGEST := ./internal/test/real/tabletest ./lab/systems
LARGE := ./internal/test/real ./lab
PARTS := $(patsubst %/,%,$(sort $(dir $(foreach module,$(LARGE),$(wildcard $(module)/*/*.go)))))

.PHONY: test-all
test-all: ## every test, those against servers too; FRESH=1 starts servers of its own
	@.ci/services.sh go run ./internal/runtests $(PATIENCE) -modules 2 $(LONGEST) $(filter-out $(LARGE),$(MODULES)) $(filter-out $(LONGEST),$(PARTS))

.PHONY: race
race: ## the tests of the root module under the race detector
	go test -race -timeout 20m ./...

# The oldest Go that go.mod promises, in its newest release, and the newest Go. The go command
# gets them from the module proxy.
TOOLCHAINS := go1.25.14 go1.27.4

# These take long, and ask nothing of the standard library that the others do not: pages,
# simulations, checks of the repository's own files, and engines in memory.
TIMELESS := /docs/|/examples/|/internal/storm/|/internal/test/|/internal/redact$$|/retrypool$$|/retrytest/enginetest$$

# Stress tests run shorter, and a version that runs all other targets is left out.
.PHONY: toolchains
toolchains: ## the tests of the root module with the oldest and the newest Go
	@for version in $(TOOLCHAINS); do \
		[ "$$(go env GOVERSION)" != $$version ] || continue; \
		echo "== $$version"; \
		packages=$$(GOTOOLCHAIN=$$version go list -f '{{if or .TestGoFiles .XTestGoFiles}}{{.ImportPath}}{{end}}' ./...) && \
		GOTOOLCHAIN=$$version go test -short -timeout 20m $$(echo "$$packages" | grep -vE '$(TIMELESS)') ./internal/test/provoke || exit 1; \
	done

.PHONY: race-all
race-all: ## every test under the race detector; not part of ci, because it takes an hour
	@.ci/services.sh go run ./internal/runtests -flags "-race -timeout 30m" $(MODULES)

# An emulator cannot run what a test starts, such as the test itself once more, and needs
# minutes for simulations and storms of requests.
NATIVE := /internal/test/contract$$|/retryexec$$|/internal/storm/|/retryhttp$$|/retrypool$$

.PHONY: test-32
test-32: ## the tests of the root module on a 32-bit processor; where that is emulated, most of them
	@processor="$$(.ci/32-bit.sh)" && set -- $$processor && echo "test-32: $$1 by $$2" && \
		packages=$$(go list ./... | if [ $$2 = env ]; then cat; else grep -vE '$(NATIVE)'; fi) && \
		CGO_ENABLED=0 GOARCH=$$1 go test -timeout 20m -exec $$2 $$packages

# A test that is not there passes, so its name has to appear.
.PHONY: allocs
allocs: ## the tests that pin allocations
	@go test -count=1 -v -run Alloc . ./retryjob ./internal/test/classify > allocs.out || { cat allocs.out; exit 1; }
	@grep -E '^(--- |ok)' allocs.out
	@grep -q '^--- PASS: .*Alloc' allocs.out || { echo "allocs: no test ran"; exit 1; }

.PHONY: arch
arch: ## the same delays on every architecture: amd64, arm64 and 32 bits
	.ci/arch.sh

.PHONY: cross
cross: ## compile for Windows, macOS and browsers
	.ci/cross.sh

.PHONY: cross-all
cross-all: ## compile for FreeBSD, Plan 9 and WASI too; not part of ci, but of the scheduled workflow
	.ci/cross.sh all

.PHONY: fuzz
fuzz: ## every fuzz target for FUZZTIME
	.ci/fuzz.sh $(FUZZTIME)

# Every round runs all benchmarks once, and a ratio compares the two of one
# round: they saw the same machine.
.PHONY: bench
bench: ## what a call costs, compared with a loop by hand
	@go test -c -o retry.test $(BENCHPKG)
	@for i in $$(seq $(BENCHCOUNT)); do \
		./retry.test -test.run '^$$' -test.bench . -test.skip Sleepers -test.benchtime $(BENCHTIME) || exit 1; \
	done > bench.out || { cat bench.out; exit 1; }
	@go run ./internal/benchratio < bench.out

# Each in a process of its own, because stacks that have grown are used again.
.PHONY: sleepers
sleepers: ## the memory of a caller that waits, compared with a loop by hand
	@go test -c -o retry.test .
	@for by in hand retry; do \
		./retry.test -test.run '^$$' -test.bench "Sleepers/by=$$by" -test.benchtime 1x | grep B/sleeper; \
	done | awk '{ print; bytes[NR] = $$(NF - 1) } \
		END { if (NR < 2 || bytes[2] > 1.15 * bytes[1]) { print "sleepers: more than 1.15 times"; exit 1 } }'

# What docs/ has of it, and of durable, is made by `make plots`. On a quiet machine: 8 minutes.
.PHONY: peers
peers: ## measure every library that we compare with: lab/raw
	cd lab && ./measure.sh $(BENCHCOUNT)

.PHONY: plots
plots: ## the pictures and tables of docs, from lab/raw and simulations
	cd lab && go run ./plots && go run ./storm -reproduce ../docs/evidence/storms.md && \
		go test -count=1 ./behaviour -update

# The server takes minutes to compile, and so is not part of test-all.
.PHONY: temporal
temporal: ## the conformance tests of retrytemporal against a Temporal server
	cd internal/tools/apart && go build -o $(CURDIR)/temporal.out ./temporal
	cd adapters/retrytemporal && $(CURDIR)/temporal.out go test -count=1 -v -run TestTemporal .

# With the servers that tests need: 25 minutes.
.PHONY: engines
engines: ## docs/evidence/engines.md, from the tests of the adapters and a comparison with the engines' own policies
	cd examples/engines && go run ./compare >compare.out && mv compare.out table/compare.json && ./page.sh

# With PostgreSQL, MariaDB and Redis, on a machine that does nothing else: 25 minutes.
.PHONY: durable
durable: ## measure stored jobs, by library: lab/raw/durable.txt
	cd lab && go run ./durable >durable.out && mv durable.out raw/durable.txt

# With PostgreSQL and Redis, on a machine that does nothing else: an hour.
QUOTA := go run ./quota/processes
.PHONY: quota
quota: ## measure a backlog behind a limit in real processes: lab/raw/quota.txt and docs/evidence/quota.md
	cd lab && { $(QUOTA) && $(QUOTA) -limit 25 -others 0 -only 'Worker;Worker, Quota' && \
		$(QUOTA) -jobs 10000 -limit 500 -window 20s -others 0 -only 'Worker, Quota' && \
		for server in 503 'one, in ms' one 'one, and says'; do $(QUOTA) -server "$$server" -others 0 -only 'Worker;Worker, Quota' || exit; done && \
		$(QUOTA) -before 30 -jobs 500 -others 0 -only 'Worker;Worker, Quota' && \
		$(QUOTA) -before 100 -lasts 10s -idle 1m -others 0 -only 'Worker;Worker, Quota'; } >quota.out && \
		mv quota.out raw/quota.txt && go run ./quota ../docs/evidence/quota.md

.PHONY: playground
playground: ## build the playground into the folder playground; go run ./docs/playground/serve shows it
	go run ./docs/playground/serve -o playground

# The first use builds Hugo, in minutes, so that ci leaves it to the workflow of the site.
# The test looks for a word in Chromium.
.PHONY: site
site: ## README, docs and the playground as a static site in the folder site, tested
	cd docs/site && go tool -modfile=$(CURDIR)/internal/tools/apart/go.mod hugo \
		--noBuildLock --quiet --panicOnWarning --cleanDestinationDir --destination $(CURDIR)/site
	go run ./docs/playground/serve -o site/playground
	cd internal/test/real && go run ./site $(CURDIR)/site && go test -count=1 -tags site ./site

.PHONY: cover
cover: ## the coverage of the root package
	go test -coverpkg=. -coverprofile=cover.out . ./retryjob ./internal/test/classify
	@go tool cover -func=cover.out | awk '{ print } $$1 == "total:" { total = $$3 + 0 } \
		END { if (total < $(COVER)) { print "cover: less than $(COVER) %"; exit 1 } }'

.PHONY: size
size: ## what a program grows by if it imports the library
	@.ci/size.sh

.PHONY: mutate
mutate: ## mutation tests of the code that decides
	$(TOOL) gremlins unleash --timeout-coefficient 10 \
		$(foreach file,$(filter-out $(MUTATE),$(notdir $(wildcard *.go))),--exclude-files '^$(file)$$') \
		--exclude-files / .

.PHONY: release
release: ## tag VERSION of every module: a dry run; with PUSH=1, main and the tags are pushed
	.ci/release.sh $(VERSION)

.PHONY: release-check
release-check: ## let a consumer get every module of a release that is not published
	.ci/release-check.sh

.PHONY: apidiff
apidiff: ## compare the API of the root module with docs/stability.tsv and the last tag
	.ci/apidiff.sh

.PHONY: generate
generate: ## write the generated files anew
	$(call each,go generate ./...)

.PHONY: tidy
tidy: ## check that every go.mod is tidy, that of the tools too
	$(call each,go mod tidy -diff)
	cd internal/tools && go mod tidy -diff
	cd internal/tools/apart && go mod tidy -diff

.PHONY: versions
versions: ## raise what modules require until all require the same; a test finds what is behind
	.ci/versions.sh $(MODULES)

# Not part of ci, because what others release must not stop a change of ours.
.PHONY: newest
newest: ## the tests of what imports drivers, clients and engines, with their newest releases
	.ci/services.sh .ci/newest.sh $(filter ./adapters/% ./internal/test/%,$(MODULES))

# Not part of ci, because the database, https://vuln.go.dev, cannot be reached
# everywhere. A copy will do: make vuln VULNFLAGS='-db file:///path/to/copy'.
.PHONY: vuln
vuln: ## known vulnerabilities in what every module calls
	$(call each,$(TOOL) govulncheck $(VULNFLAGS) ./...)

.PHONY: work
work: ## write a go.work for editors, which git ignores
	rm -f go.work go.work.sum
	GOWORK= go work init $(MODULES)

.PHONY: modules
modules: ## print the modules
	@printf '%s\n' $(MODULES)
