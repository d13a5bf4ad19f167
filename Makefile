# What one needs: Go (1.25 or newer), bash, and a C compiler for `make test` (the
# race detector is C). Nothing else has to be installed.

SHELL := bash
# A failure inside a loop or a pipe fails the recipe. (.SHELLFLAGS would say so
# once, but the make of macOS does not know it.)
STRICT := set -euo pipefail;
.NOTPARALLEL:

# Every module is built and tested as its users get it: without the workspace.
export GOWORK := off

GO          ?= go
MODULES     := . sdk sdk/bench incidents ui
STATICCHECK := honnef.co/go/tools/cmd/staticcheck@v0.8.2
# Systems that the tests do not run on, but every package that people import or install has to
# compile for. (incidents plants faults on Linux, ui is run to make the page.)
CROSS       := darwin/arm64,windows/amd64,linux/arm64

# Compiled to run once: without optimisation it takes two thirds of the time, which is minutes.
GORELEASER  := -gcflags='all=-N -l -dwarf=false' -ldflags=-w github.com/goreleaser/goreleaser/v2@v2.12.0
# A program that builds container images, and what else it is told.
BUILDER     ?= $(shell command -v podman || command -v docker || command -v buildah)
BUILDFLAGS  ?=
IMAGE       ?= whylate

.PHONY: help build page screenshots demo test fmt vet lint cross unit e2e bench dist release image

help:
	@echo 'make build   bin/whylate, without cgo'
	@echo 'make page    the HTML report'"'"'s program, of ui/report (needs npm)'
	@echo 'make demo    build it and let it diagnose a planted fault'
	@echo 'make test    gofmt, vet, staticcheck, other systems, tests under the race detector'
	@echo 'make e2e     diagnose third-party programs (incidents/e2e.sh)'
	@echo 'make bench   what reading and diagnosing a trace costs, beside the Go team'"'"'s tools'
	@echo 'make image   a container image (podman, docker, buildah), see Containerfile'
	@echo 'make dist    what a release has, into dist/; the commit needs a tag'
	@echo 'make release make dist, and publish it (GITHUB_TOKEN)'

build:
	CGO_ENABLED=0 $(GO) build -trimpath -o bin/whylate ./cmd/whylate

# What the HTML report runs is committed; this makes it anew. npm gets the packages that
# ui/package-lock.json names.
page: ui/node_modules
	GOWORK=off $(GO) generate ./report

ui/node_modules: ui/package-lock.json
	npm --prefix ui ci
	touch $@

# The pictures in README and docs, of three golden incidents: see ui/test/walk.mjs.
screenshots: ui/node_modules
	WHYLATE_PICTURES="$(CURDIR)/docs/pictures" $(GO) test -count=1 -run Browser ./report

# The demo diagnoses a fault it planted itself. Exit status 3 is that of a
# diagnosis which named a cause; the demo gives it only if the cause is the planted one.
demo: build
	@status=0; ./bin/whylate demo || status=$$?; \
	if [ $$status -ne 3 ]; then \
		echo "demo: whylate exited with $$status, not with 3 (the planted cause was found)" >&2; exit 1; \
	fi

test: fmt vet lint cross unit

# What is compiled to be looked at is what is built: flags are those of `make build`.
vet lint cross: export GOFLAGS := $(GOFLAGS) -trimpath
vet lint cross: export CGO_ENABLED := 0

fmt:
	@echo '== gofmt'
	@$(STRICT) gofmt="$$($(GO) env GOROOT)/bin/gofmt"; \
	files="$$(find . -name '*.go' -not -path '*/testdata/*' -not -path '*/node_modules/*' -not -path './.*' -print0 | xargs -0 "$$gofmt" -l)"; \
	if [ -n "$$files" ]; then echo "not formatted; run gofmt -w on:"; echo "$$files"; exit 1; fi

vet:
	@$(STRICT) for m in $(MODULES); do echo "== go vet ($$m)"; $(GO) -C $$m vet ./...; done

lint:
	@$(STRICT) for m in $(MODULES); do echo "== staticcheck ($$m)"; (cd $$m && $(GO) run $(STATICCHECK) ./...); done

cross:
	@$(STRICT) for m in . sdk; do echo "== types for $(CROSS) ($$m)"; $(GO) run ./internal/house/compiles -C $$m $(CROSS) ./...; done

# The seeds and committed corpora of the fuzz tests run here like any other test. What go test
# would vet, `make vet` does.
# Packages whose tests record live processes run one after the other: beside other
# tests whylate rightly says that somebody else had the CPU. The last line counts
# the tests of all modules.
# What lies with them and only reads files is not among them. Scenarios of demo need gigabytes
# and seconds of CPU time to start. Threads of sdk/pace get hardly any CPU that other tests want.
LIVE := /(capture|cmd|demo|diagnose|request)(/|$$)|sdk/pace$$
FILES := /capture/(symbols|kernel/events)$$
# Packages in which nothing is concurrent, not in their tests either: a test in internal/house
# sees to it. The race detector would find nothing there, and make them twenty times as slow.
# So it does where few tests are concurrent (see need.Raced): under it these read some traces and
# diagnose some of the golden incidents, without it all.
# These run beside the others, in which much is waiting for a browser and for compilers.
PLAIN := whylate/(cause|experiment|report|report/export|capture/kernel/events|internal/house/compiles)$$
GOLDEN := Golden|Copy|WithoutTheHost|DetailsAddUp|PartsCount
# Under the race detector a program waits a second before it ends, so that other threads tell of races;
# tests start hundreds of children, and wait for what each of them does.
unit: export GORACE := $(GORACE) atexit_sleep_ms=10
unit:
	@echo '== go test, with -race but where nothing is concurrent ($(MODULES))'
	@$(STRICT) { bad=0; beside="$$(mktemp)"; \
		plain=(env CGO_ENABLED=0 GOFLAGS="$${GOFLAGS-} -trimpath" $(GO) test -vet=off -json); \
		{ "$${plain[@]}" $$($(GO) list ./... | grep -E '$(PLAIN)') ./gotrace ./timeline ./report/redact || bad=1; \
			"$${plain[@]}" -run '$(GOLDEN)' ./diagnose ./request || bad=1; \
			(cd sdk && "$${plain[@]}" ./breaker) || bad=1; exit $$bad; } >"$$beside" 2>&1 & \
		for m in $(MODULES); do \
			all="$$($(GO) -C $$m list ./... | grep -vE '$(PLAIN)')"; \
			live="$$(grep -E '$(LIVE)' <<<"$$all" | grep -vE '$(FILES)' || true)"; \
			CGO_ENABLED=1 $(GO) -C $$m test -vet=off -race -json $$(grep -vxF "$$live" <<<"$$all" || true) || bad=1; \
			if [ -n "$$beside" ]; then wait $$! || bad=1; cat "$$beside"; rm "$$beside"; beside=; fi; \
			if [ -n "$$live" ]; then CGO_ENABLED=1 $(GO) -C $$m test -vet=off -race -json -p 1 $$live || bad=1; fi; \
		done; exit $$bad; } 2>&1 </dev/null | $(GO) run ./internal/house/tally

e2e:
	./incidents/e2e.sh

# Takes minutes, and the whole machine. go tool trace needs 90 bytes of memory for each byte of
# trace: of the last trace it is not asked.
bench: build
	$(GO) build -o bin/timelines ./timeline/bench
	$(GO) run ./gotrace/bench -whylate bin/whylate -mb 10,70
	$(GO) run ./gotrace/bench -whylate bin/whylate -mb 500 -gotool=false

dist:
	$(GO) run $(GORELEASER) release --clean --skip=publish,announce

release:
	$(GO) run $(GORELEASER) release --clean

image:
	CGO_ENABLED=0 GOOS=linux $(GO) build -trimpath -o bin/linux/whylate ./cmd/whylate
	$(BUILDER) build $(BUILDFLAGS) -f Containerfile -t $(IMAGE) .
