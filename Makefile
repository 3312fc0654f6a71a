# Builds, tests and runs the CSI operators for OpenStack. `make` alone lists the targets. Needed: Go 1.26, make, git.

# Where the Kubernetes binaries and CRDs of test/devcluster are kept; building them takes minutes. Tests read it too.
K8S_BIN_DIR ?= bin/k8s
override export K8S_BIN_DIR := $(abspath $(K8S_BIN_DIR))
# Flags of the devcluster for `make run`: `make run ARGS=--exit-when-ready`, `make run ARGS=--flavour=hypershift`.
# `bin/devcluster run --help` lists them.
ARGS ?=
# More flags of go test for every test target: `make test-unit TESTFLAGS='-v -run Name'`.
TESTFLAGS ?=
# The driver that `make new-driver` makes.
NAME ?=
# What builds an image, and the name to give it; by default that of the operator's Deployment.
CONTAINER_TOOL ?= podman
IMAGE ?=

# One set of flags for all that is compiled here, so that tests, linter and programs share Go's build cache.
# go.mod and go.sum must suffice as they are.
export GOFLAGS := -mod=readonly -trimpath -buildvcs=false
export GOWORK := off
export CGO_ENABLED := 0

# Programs say their commit where there is one; elsewhere git must not end the build.
BUILDVCS := $(shell git rev-parse --quiet --verify HEAD >/dev/null 2>&1 && echo true || echo false)
BUILD := build -buildvcs=$(BUILDVCS) -ldflags '-s -w'
BIN_DIR := $(CURDIR)/bin
LINTER := bin/tools/golangci-lint

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | while IFS='|' read -r target text; do \
		printf '  make %-18s %s\n' "$$target" "$$text"; done

.PHONY: build
build: ## Build the operators, the generator and the devcluster into bin/
	@echo 'Building the programs into bin/ (a few minutes the first time)'
	go $(BUILD) -o bin/ ./cmd/... ./test/devcluster/cmd/...

.PHONY: k8s
k8s: build ## Build the Kubernetes binaries of the devcluster if they are missing or outdated
	bin/devcluster build --binaries=$(K8S_BIN_DIR)

.PHONY: run
run: build ## Run the operators (by default Manila) on a local control plane with a simulated OpenStack; ARGS has more flags
	exec bin/devcluster run --binaries=$(K8S_BIN_DIR) $(ARGS)

.PHONY: update
update: ## Regenerate what is generated and checked in
	hack/update.sh

.PHONY: new-driver
new-driver: ## Make the folders of a new driver that works: make new-driver NAME=demo
	go run -buildvcs=false ./hack/new-driver '$(NAME)'
	hack/update.sh

.PHONY: verify
verify: ## Fail if generated files or go.mod are outdated, or prose is wider than 100 columns
	hack/columns.sh
	hack/verify.sh
	go mod tidy -diff
	go -C test/devcluster/kubernetes mod tidy -diff

.PHONY: test
test: ## All that CI runs: every stage below, those that fail early first
	@hack/stages.sh lint verify test-unit test-devcluster test-integration

.PHONY: lint
lint: $(LINTER) ## Run the linter
	$(LINTER) run --allow-parallel-runners ./...

$(LINTER): hack/tools/go.mod hack/tools/go.sum
	@echo 'Building the linter (about two minutes, once)'
	go -C hack/tools build -ldflags '-s -w' -o $(dir $(CURDIR)/$@) tool
	@touch $@

.PHONY: test-unit
test-unit: ## Run the tests that need no cluster
	go test $(TESTFLAGS) ./...

.PHONY: test-devcluster
test-devcluster: k8s ## Run the devcluster itself, and a new driver in it
	go test -tags integration -timeout 30m $(TESTFLAGS) ./test/devcluster/...

# Tests wait for a free cluster, so that more of them may be under way than there are CPUs. The test flags -standalone and
# -hypershift say how many clusters there are: `make test-integration TESTFLAGS='-standalone=1 -hypershift=1'`.
.PHONY: test-integration
test-integration: k8s ## Run the programs of bin/ on a real control plane with a simulated OpenStack
	BIN_DIR=$(BIN_DIR) go test -tags integration -count 1 -timeout 40m -parallel 64 -v $(TESTFLAGS) ./test/integration/...

.PHONY: bench
bench: k8s ## Measure memory and requests of the operators of BENCH_GUESTS hosted clusters (20: 15 minutes, 10 GB)
	BIN_DIR=$(BIN_DIR) go test -tags bench -run '^$$' -bench . -benchtime 1x -timeout 60m $(TESTFLAGS) ./test/bench/

.PHONY: image-manila
image-manila: ## Build the image of the Manila operator with CONTAINER_TOOL
	$(CONTAINER_TOOL) build -f Dockerfile.manila -t $(or $(IMAGE),manila-csi-driver-operator) .

.PHONY: image-cinder
image-cinder: ## Build the image of the Cinder operator with CONTAINER_TOOL
	$(CONTAINER_TOOL) build -f Dockerfile.cinder -t $(or $(IMAGE),openstack-cinder-csi-driver-operator) .

.PHONY: clean
clean: ## Stop the devcluster and remove all that make built, the Kubernetes binaries too
	@if [ -x bin/devcluster ]; then bin/devcluster down; fi
	rm -rf bin .devcluster
