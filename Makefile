# Builds, tests and runs the CSI operators for OpenStack. `make` alone lists the targets. You need
# Linux, Go 1.26, make, bash and git.

# The folder of the Kubernetes binaries and CRDs of test/devcluster. Building them takes minutes.
# Tests read the variable too.
K8S_BIN_DIR ?= bin/k8s
override export K8S_BIN_DIR := $(abspath $(K8S_BIN_DIR))
# The folder of the programs of real nodes. Building them takes minutes, too.
NODE_BIN_DIR ?= bin/node
override export NODE_BIN_DIR := $(abspath $(NODE_BIN_DIR))
# The folder of the programs of end-to-end tests. Building them takes minutes, too.
E2E_BIN_DIR ?= bin/e2e
override export E2E_BIN_DIR := $(abspath $(E2E_BIN_DIR))
# The folder of the programs of OLM. Building them takes minutes, too.
OLM_BIN_DIR ?= bin/olm
override export OLM_BIN_DIR := $(abspath $(OLM_BIN_DIR))
# Flags of the devcluster for `make run`: `make run ARGS=--exit-when-ready`, `make run
# ARGS=--flavour=hypershift`. `bin/devcluster run --help` lists them.
ARGS ?=
# More flags of go test, or of a test binary, for every test target: `make test-unit TESTFLAGS='-v
# -run Name'`, `make test-integration TESTFLAGS=-standalone=1`.
TESTFLAGS ?=
# The packages whose unit tests run: `make test-unit PACKAGES=./pkg/hook`.
PACKAGES := ./...
# The build tags of tests on control planes. `integration,long` adds the tests that only `make
# test-all` runs.
TAGS ?= integration
# All build tags of tests.
ALL_TAGS := integration,long,e2e,openstack,bench,buildah,monitoring,chaos,helm,olm,browser
# The name of the driver that `make new-driver` creates.
NAME ?=
# The tool that builds an image, and the name of the image; the default is the name of the
# Deployment of the operator. `make deploy` uses the name, too.
CONTAINER_TOOL ?= podman
IMAGE ?=
# For `make images`: registry and path to push to, such as quay.io/you; version, by default what git
# describes; platforms, by default linux/amd64,linux/arm64.
PUSH ?=
VERSION ?=
PLATFORMS ?=

# One set of flags for everything that is compiled here, so that tests, linter and programs share
# Go's build cache. The flags forbid changes of go.mod and go.sum. To save time, packages contain no
# data for debuggers, and tests do not run go vet, because `make vet` runs it. The generated code of
# API types is not inlined: programs are 5 % smaller, and need 7 % more CPU to start.
export GOFLAGS := -mod=readonly -trimpath -buildvcs=false -gcflags=all=-dwarf=false -vet=off \
	-gcflags=k8s.io/api/...=-l -gcflags=github.com/openshift/api/...=-l
export GOWORK := off
export CGO_ENABLED := 0

# Programs contain the commit if there is one. Otherwise the build must not fail because of git.
BUILDVCS := $(shell git rev-parse --quiet --verify HEAD >/dev/null 2>&1 && echo true || echo false)
# Without the tracing of gRPC, which nobody turns on, the linker removes what no program calls: its
# pages use html/template, which may call every method. Functions begin at multiples of 16 bytes
# instead of 32, which makes a program 1 % smaller.
BUILD := build -buildvcs=$(BUILDVCS) -tags grpcnotrace -ldflags '-s -w -funcalign=16'
BIN_DIR := $(CURDIR)/bin
# The packages of the programs that `make build` builds.
PROGRAMS := ./cmd/... ./test/devcluster/cmd/... ./test/node/cmd/... ./test/openstack/cmd/...
# Those that `make run` starts, and the plugin that its users call: 1,286 packages instead of 1,509.
# Real nodes need all.
RUN_PROGRAMS := $(wildcard ./cmd/*-operator) ./cmd/kubectl-openstack_csi ./test/devcluster/cmd/...
# The folders of the go.mod files of other programs. `go mod tidy` would remove the only module of
# test/devcluster/crd, of which no package is imported, but CRDs are copied. For those of OLM it
# would download hundreds of modules, which `make test` does not need.
MODULES := hack/tools/actionlint hack/pictures test/devcluster/kubernetes \
	$(addprefix test/node/programs/,containerd cni) test/node/images/programs \
	test/e2e/programs/csi-test test/integration/kstatus
# The targets of real nodes, if `make run` needs them.
REAL_NODES := $(if $(findstring --nodes=real,$(ARGS)),node node-images)
LINTER := bin/tools/golangci-lint
# The linters of `make lint`. `make lint-all` runs all linters of .golangci.yml.
LINTERS := depguard,errcheck,errorlint,forbidigo,funlen,gochecknoglobals,gochecknoinits,gosec
LINTERS := $(LINTERS),ineffassign,lll,nolintlint,revive,staticcheck,unused
GOVULNCHECK := bin/tools/govulncheck
ACTIONLINT := bin/tools/actionlint
# What hack/code.sh runs.
CODE_GENERATORS := $(addprefix bin/tools/,controller-gen protoc-gen-go)

.PHONY: help
help: ## List the targets
	@sed -n 's/^\([a-z0-9-]*\):[^#]*## \(.*\)/\1|\2/p' Makefile | \
		while IFS='|' read -r target text; do printf '  make %-20s %s\n' "$$target" "$$text"; done

.PHONY: build
build: ## Build the operators, the generator and the programs of tests into bin/
	@echo 'Building the programs into bin/ (a few minutes the first time)'
	go $(BUILD) -o bin/ $(PROGRAMS)

.PHONY: sbom
sbom: build ## Write the software bill of materials of each operator, bin/PROGRAM.cdx.json
	go run ./hack/sbom bin/*-operator

.PHONY: k8s
k8s: ## Build the Kubernetes binaries of the devcluster if they are missing or outdated
	hack/k8s.sh '$(K8S_BIN_DIR)'

.PHONY: node
node: ## Build the programs of real nodes if they are missing or outdated
	hack/node.sh '$(NODE_BIN_DIR)'

# --check tests ARGS, and what real nodes need, before the other builds, which take minutes.
.PHONY: run
run: ## Run operators on a local control plane with a simulated OpenStack
	@echo 'Building the operators and the devcluster (a few minutes the first time)'
	go $(BUILD) -o bin/ $(if $(REAL_NODES),$(PROGRAMS),$(RUN_PROGRAMS))
	@bin/devcluster run $(ARGS) --check >/dev/null
	@$(MAKE) --no-print-directory k8s $(REAL_NODES)
	exec bin/devcluster run --binaries=$(K8S_BIN_DIR) $(ARGS)

.PHONY: update
update: $(CODE_GENERATORS) ## Regenerate the checked-in assets and code
	hack/code.sh
	hack/update.sh

# The lists are checked in. Downloads 200 MB of modules, and reads Debian's packages of OpenStack.
.PHONY: universe
universe: ## List what drivers, Kubernetes and OpenStack say, for the tests of kubectl openstack-csi
	go run ./hack/universe

.PHONY: bundle
bundle: update ## Regenerate the OLM bundles with the other assets, and list their folders
	@ls -d assets/drivers/*/generated/*/olm assets/csi-addons/generated/olm \
		assets/csi-addons/generated/*/olm

.PHONY: new-driver
new-driver: ## Create the folders of a working driver: make new-driver NAME=demo
	go run -buildvcs=false ./hack/new-driver '$(NAME)'
	hack/update.sh
	go test ./test/docs -run Texts -update

.PHONY: verify
verify: $(CODE_GENERATORS) ## Fail if generated files or go.mod are outdated, or prose is too wide
	hack/columns.sh
	hack/verify.sh
	hack/verify-code.sh
	go mod tidy -diff
	@set -e; for folder in $(MODULES); do (set -x; go -C $$folder mod tidy -diff); done
	go -C test/node/images/programs mod tidy -diff -modfile logins/go.v1.33.mod

.PHONY: test
test: ## Run what CI runs, and what to run before each commit (6 minutes, 13 in a new clone)
	@hack/stages.sh lint vet verify test-unit test-clusters

.PHONY: test-all
test-all: export TAGS := integration,long
test-all: ## Run all tests that need no root, also after a failure (an hour)
	@hack/stages.sh --keep-going lint-all vet verify test-unit test-race \
		verify-supply-chain test-logins test-devcluster test-chaos test-helm test-olm test-clusters

.PHONY: test-root
test-root: ## Run all tests that need root or packages of Debian, also after a failure (90 min)
	@hack/root-packages.sh
	@hack/stages.sh --keep-going test-csi-sanity test-node test-promises test-storage \
		test-e2e-csi-addons test-dockerfiles test-openstack test-monitoring

.PHONY: lint
lint: $(LINTER) ## Run the most important linters
	$(LINTER) fmt --diff
	$(LINTER) run --allow-parallel-runners --enable-only $(LINTERS) --build-tags integration ./...

.PHONY: lint-all
lint-all: $(LINTER) $(ACTIONLINT) ## Run all linters on all files
	$(LINTER) run --allow-parallel-runners --build-tags $(ALL_TAGS) ./...
	$(ACTIONLINT)

.PHONY: vet
vet: ## Compile all tests, and check them with go vet
	go vet -tags $(ALL_TAGS) ./...

# Each tool has a rule of its own, so that no target waits for a tool that it does not use.
$(LINTER) $(GOVULNCHECK) $(CODE_GENERATORS): hack/tools/go.mod hack/tools/go.sum
	@echo 'Building $(@F) (once; golangci-lint takes minutes)'
	go -C hack/tools build -ldflags '-s -w' -o $(BIN_DIR)/tools/ \
		$$(go -C hack/tools list tool | grep '/$(@F)$$')
	@touch $@

$(ACTIONLINT): hack/tools/actionlint/go.mod hack/tools/actionlint/go.sum
	go -C hack/tools/actionlint build -ldflags '-s -w' -o $(BIN_DIR)/tools/ tool
	@touch $@

.PHONY: verify-supply-chain
verify-supply-chain: build $(GOVULNCHECK) ## Check modules, vulnerabilities, SBOM and builds
	go mod verify
	@set -e; for folder in $(MODULES) test/devcluster/crd hack/tools; do \
		(set -x; go -C $$folder mod verify); done
	go -C test/node/images/programs mod verify -modfile logins/go.v1.33.mod
	hack/vulnerabilities.sh . ./cmd/...
	BIN_DIR=$(BIN_DIR) go test -tags integration -count 1 -timeout 30m -short ./test/supplychain \
		$(TESTFLAGS)

.PHONY: test-dockerfiles
test-dockerfiles: ## Build the Dockerfiles with buildah, and run the images (root, 5 minutes)
	go mod download # the builds use this cache: they do not know the CA of a proxy
	go test -tags integration,buildah -count 1 -timeout 60m -v -run Dockerfiles ./test/supplychain \
		$(TESTFLAGS)

.PHONY: verify-reproducible
verify-reproducible: ## Compare a build with one from an empty cache (5 minutes)
	go test -tags integration -count 1 -timeout 60m -v -run Reproducible ./test/supplychain

# The tests need a third less time if garbage is collected less often.
.PHONY: test-unit
test-unit: export GOGC := 300
test-unit: ## Run the tests that need no cluster
	go test $(PACKAGES) $(TESTFLAGS)

# The detector needs cgo. It makes tests several times slower, and they are compiled once more.
.PHONY: test-race
test-race: export CGO_ENABLED := 1
test-race: ## Run the unit tests of what ships with the race detector, which needs gcc (30 minutes)
	@command -v gcc >/dev/null || { echo >&2 'The race detector needs gcc. Install it'; exit 1; }
	go test -race -timeout 30m ./pkg/... $(TESTFLAGS)

# TESTS are the packages whose tests run, by default the one with the mutant. A mutant may repeat
# for ever what needs memory, which therefore has a limit.
.PHONY: mutants
mutants: ## Change the code of PACKAGES in N places each (20), and say which tests notice: SEED=n
	@ulimit -v 8388608; \
		go run ./hack/mutants -seed=$(or $(SEED),1) -n=$(or $(N),20) -tests='$(TESTS)' $(PACKAGES)

.PHONY: fuzz
fuzz: ## Search for texts that break parsers or cost too much, for DURATION (1m) with each target
	@grep -ro --include='*_test.go' '^func Fuzz[A-Za-z]*' pkg | sed 's|/[^/]*:func | |' | \
	while read -r folder name; do \
		go test -run '^$$' -fuzz "^$$name$$" -fuzztime $(or $(DURATION),1m) ./$$folder || exit 1; \
	done

# Programs with the code of the drivers: of the pinned version, and of the oldest supported one; and
# the pinned drivers.
.PHONY: logins
logins:
	@mkdir -p $(BIN_DIR)/logins
	go -C test/node/images/programs build -ldflags '-s -w' -o $(BIN_DIR)/logins/v1.36 ./logins
	go -C test/node/images/programs build -ldflags '-s -w' -modfile logins/go.v1.33.mod \
		-o $(BIN_DIR)/logins/v1.33 ./logins
	go -C test/node/images/programs build -ldflags '-s -w' -o $(BIN_DIR)/logins/ \
		k8s.io/cloud-provider-openstack/cmd/cinder-csi-plugin \
		k8s.io/cloud-provider-openstack/cmd/manila-csi-plugin

.PHONY: test-logins
test-logins: logins ## Run the drivers with many clouds.yaml (the first time 5 minutes more)
	BIN_DIR=$(BIN_DIR) go test -tags integration -count 1 ./test/logins $(TESTFLAGS)

# The test reads SEED, which repeats a run, and DURATION.
.PHONY: fuzz-clouds
fuzz-clouds: export DURATION ?= 10m
fuzz-clouds: logins ## Search for a clouds.yaml with which operators and drivers differ: SEED=n
	BIN_DIR=$(BIN_DIR) go test -tags integration -count 1 -timeout 24h -run RandomLogins \
		./test/logins $(TESTFLAGS)

.PHONY: test-devcluster
test-devcluster: build k8s ## Run the tests of the devcluster, and of a new driver in it
	go test -tags $(TAGS) -count 1 -timeout 40m ./test/devcluster/... $(TESTFLAGS)

# The test reads these variables: SEED is the number that repeats a run, by default a random one,
# DURATION the time for faults in each flavour, FAULTS a regular expression of their names, and
# KILLS how often an operator is killed while it installs, and as often later.
.PHONY: test-chaos
test-chaos: build k8s ## Let everything fail around the operators for two minutes (4 min in all)
	BIN_DIR=$(BIN_DIR) go test -tags chaos -count 1 -timeout 3h -parallel 1 -v ./test/chaos \
		$(TESTFLAGS)

.PHONY: chaos
chaos: export DURATION ?= 10m
chaos: export KILLS ?= 25
chaos: test-chaos ## Let everything fail around the operators for DURATION; SEED=n repeats a run

# `make test` plays 1,000 histories, always the same. A failure names its SEED.
.PHONY: chaos-fences
chaos-fences: ## Play 10,000 HISTORIES of fences around which all fails: SEED=n is the first
	SEED='$(SEED)' HISTORIES='$(or $(HISTORIES),10000)' go test -count 1 -timeout 24h \
		-run FencesHold ./pkg/csiaddons/controller/fence $(TESTFLAGS)

.PHONY: test-node
test-node: build k8s node node-images ## Test real nodes, as root
	BIN_DIR=$(BIN_DIR) go test -tags e2e,integration -count 1 -timeout 20m -p 1 -v \
		./test/node/... ./test/e2e/nodes $(TESTFLAGS)

.PHONY: test-promises
test-promises: build k8s node node-images olm bin/tools/helm3 bin/tools/helm4
test-promises: ## Test promises of operators on real nodes, as root
	BIN_DIR=$(BIN_DIR) go test -tags e2e -count 1 -timeout 90m -v ./test/e2e/promises \
		$(TESTFLAGS)

# A test mounts a file system.
.PHONY: test-e2e-csi-addons
test-e2e-csi-addons: build k8s node node-images ## Test CSI-Addons on real nodes, as root
	BIN_DIR=$(BIN_DIR) go test -tags e2e -count 1 -timeout 60m -v -exec 'unshare --mount' \
		./test/e2e/csiaddons $(TESTFLAGS)

# SEED chooses the order of the faults, their nodes and their moments.
.PHONY: chaos-nodes
chaos-nodes: build k8s node node-images ## Kill real nodes while pods write, as root: SEED=n repeats
	CHAOS_SEED='$(SEED)' BIN_DIR=$(BIN_DIR) go test -tags e2e -count 1 -timeout 30m -v \
		-exec 'unshare --mount' -run NodesFail ./test/e2e/csiaddons $(TESTFLAGS)

# Tests wait for a free cluster, so more tests may run than there are CPUs. The test flags
# -standalone and -hypershift set the number of clusters: `make test-integration
# TESTFLAGS='-standalone=1 -hypershift=1'`. In test-csi-addons the flag is -clusters.
.PHONY: test-integration
test-integration: build k8s $(if $(findstring long,$(TAGS)),bin/kstatus)
test-integration: ## Test the operators on real API servers
	BIN_DIR=$(BIN_DIR) go test -tags $(TAGS) -count 1 -timeout 40m -parallel 64 -v \
		./test/integration $(TESTFLAGS)

KSTATUS := $(wildcard test/integration/kstatus/*)
bin/kstatus: $(KSTATUS)
	go -C test/integration/kstatus build -o $(BIN_DIR)/ .

bin/tools/helm%: hack/helm.sh
	hack/helm.sh $@ $*

bin/tools/definitions: hack/definitions.sh
	hack/definitions.sh $@

.PHONY: olm
olm:
	hack/olm.sh '$(OLM_BIN_DIR)'

.PHONY: test-olm
test-olm: build k8s olm ## Test the bundles with the real OLM (the first time 15 minutes more)
	BIN_DIR=$(BIN_DIR) go test -tags integration,long,olm -count 1 -timeout 30m -v -run RealOLM \
		./test/integration -standalone=1 -hypershift=1 $(TESTFLAGS)

.PHONY: test-helm
# The chart stands beside definitions of others.
test-helm: build k8s bin/tools/helm3 bin/tools/helm4 bin/tools/definitions
test-helm: ## Test the chart (7 min more the first time)
	BIN_DIR=$(BIN_DIR) go test -tags integration,long,helm -count 1 -timeout 30m -v -run Helm \
		./test/integration $(TESTFLAGS)

# The integration tests in which OpenStack's answers matter most, some for each driver.
OPENSTACK_TESTS := StorageClassesAreMaintained DriverFollowsManila LogsInOnce \
	OperatorsRunUnderRolesOfOpenShift CinderRollsOutChangedInputs

.PHONY: test-openstack
test-openstack: build k8s ## Test with real services of OpenStack (Debian 12)
	bin/openstack-services make --no-print-directory test-running-openstack

# One test at a time (-p is for packages), because the availability zones belong to the services.
.PHONY: test-running-openstack
test-running-openstack:
	go test -tags openstack -count 1 -timeout 60m -p 1 -parallel 1 ./pkg/openstack \
		./pkg/credential ./test/openstack/comparison $(TESTFLAGS)
	BIN_DIR=$(BIN_DIR) go test -tags integration,long -count 1 -timeout 60m -parallel 1 -v \
		-run "$$(echo '$(OPENSTACK_TESTS)' | tr ' ' '|')" \
		./test/integration -standalone=1 -hypershift=1 $(TESTFLAGS)

# One suite uses the CPU time in which the other one waits.
.PHONY: test-clusters
test-clusters: ## Run test-csi-addons and test-integration at the same time
	$(MAKE) --no-print-directory -j2 test-csi-addons test-integration

.PHONY: test-csi-addons
test-csi-addons: build k8s ## Test CSI-Addons on real API servers
	BIN_DIR=$(BIN_DIR) go test -tags $(TAGS) -count 1 -timeout 40m -parallel 64 \
		./test/csiaddons $(TESTFLAGS)

.PHONY: test-csi-sanity
test-csi-sanity: build k8s node node-images ## Run csi-sanity on a real node, as root
	hack/e2e.sh '$(E2E_BIN_DIR)' csi-sanity
	BIN_DIR=$(BIN_DIR) go test -tags e2e -count 1 -timeout 20m ./test/e2e/sanity $(TESTFLAGS)

.PHONY: test-storage
test-storage: build k8s node node-images ## Run Kubernetes' storage tests on real nodes, as root
	hack/e2e.sh '$(E2E_BIN_DIR)' storage
	BIN_DIR=$(BIN_DIR) go test -tags e2e -count 1 -timeout 4h -v ./test/e2e/storage $(TESTFLAGS)

.PHONY: test-monitoring
test-monitoring: build k8s ## Test the alerts with Debian's promtool and prometheus
	hack/e2e.sh '$(E2E_BIN_DIR)' monitoring
	BIN_DIR=$(BIN_DIR) go test -tags monitoring -count 1 -timeout 20m -v ./test/monitoring \
		$(TESTFLAGS)

# Another version of Mermaid may place boxes elsewhere.
MERMAID ?= 11.17.2

.PHONY: test-pictures
test-pictures: ## Search for mistakes in the pictures of docs with chromium and Mermaid (npm)
	@for program in chromium npm; do command -v $$program >/dev/null || \
		missing="$$missing $$program"; done; \
		fc-match Arial | grep -qi 'arial\|liberation' || missing="$$missing fonts-liberation"; \
		[ -z "$$missing" ] || { echo >&2 "Install these packages of Debian:$$missing"; exit 1; }
	npm install --prefix bin/pictures --no-save --no-audit --no-fund --ignore-scripts \
		mermaid@$(MERMAID)
	go test -tags browser -count 1 -run Browser ./test/docs $(TESTFLAGS)

# With TESTFLAGS=-update the benchmarks write their figures, which `make update` draws, too.
DRAW := go -C hack/pictures run -buildvcs=false . ../.. ../../docs/images

.PHONY: bench
bench: build k8s ## Measure the operators, and those of BENCH_GUESTS guest clusters (20: 25 min)
	go test -tags bench -count 1 -v -run Growth ./pkg/csiaddons/manila $(TESTFLAGS)
	go test -run '^$$' -bench Growth -benchtime 1x ./pkg/kubectl $(TESTFLAGS)
	BIN_DIR=$(BIN_DIR) go test -tags bench -run '^$$' -bench . -benchtime 1x -timeout 60m \
		./test/bench $(TESTFLAGS)
	$(DRAW)

.PHONY: bench-fleet
bench-fleet: export BENCH_GUESTS ?= 5,10,20
bench-fleet: build k8s ## Measure fleets of 5, 10 and 20 guest clusters (30 min, 10 GB)
	BIN_DIR=$(BIN_DIR) go test -tags bench -run '^$$' -bench Fleet -benchtime 1x -timeout 120m \
		./test/bench $(TESTFLAGS)
	$(DRAW)

.PHONY: bench-scale
bench-scale: build k8s ## Measure 2,000 nodes, and 5,000 share types and objects (30 min)
	BIN_DIR=$(BIN_DIR) go test -tags bench -count 1 -timeout 120m -v -run Scale ./test/bench \
		$(TESTFLAGS)
	$(DRAW)

.PHONY: bench-csi-addons
bench-csi-addons: build k8s ## Measure CSI-Addons with 5,000 nodes, schedules, and jobs at once
	BIN_DIR=$(BIN_DIR) go test -tags integration,bench -count 1 -timeout 90m -v \
		-run OfMany ./test/csiaddons $(TESTFLAGS)

# The drivers that the controller of CSI-Addons serves: cinder, manila or cinder-manila.
DRIVERS ?= cinder-manila

.PHONY: deploy
deploy: ## Install the controller of CSI-Addons for DRIVERS with kubectl, from IMAGE if it is set
	hack/own-controller.sh
	hack/install-crds.sh --csi-addons
	kubectl apply -k assets/csi-addons/install/$(DRIVERS)
	$(if $(IMAGE),kubectl set image -n csi-addons-system \
		deployment/csi-addons-controller-manager manager='$(IMAGE)')
	kubectl rollout status -n csi-addons-system deployment/csi-addons-controller-manager

.PHONY: undeploy
undeploy: ## Remove the controller of CSI-Addons, not the objects of users; first end all fences
	hack/own-controller.sh
	kubectl delete --ignore-not-found -k assets/csi-addons/install/cinder-manila

.PHONY: image-manila
image-manila: ## Build the image of the Manila operator with CONTAINER_TOOL
	$(CONTAINER_TOOL) build -f Dockerfile.manila -t $(or $(IMAGE),manila-csi-driver-operator) .

.PHONY: image-cinder
image-cinder: ## Build the image of the Cinder operator with CONTAINER_TOOL
	$(CONTAINER_TOOL) build -f Dockerfile.cinder \
		-t $(or $(IMAGE),openstack-cinder-csi-driver-operator) .

.PHONY: image-csi-addons
image-csi-addons: ## Build the image of CSI-Addons with CONTAINER_TOOL
	$(CONTAINER_TOOL) build -f Dockerfile.csi-addons -t $(or $(IMAGE),csi-addons) .

.PHONY: images
images: ## Build the images of operators and CSI-Addons into bin/images, and push them to PUSH
	go run ./hack/images --output=bin/images $(if $(PUSH),--push='$(PUSH)') \
		$(if $(VERSION),--version='$(VERSION)') $(if $(PLATFORMS),--platforms='$(PLATFORMS)')

# Where the images of a release are. Its files name them there.
REGISTRY ?= $(or $(PUSH),ghcr.io/openstack-csi)

# The time of the archive is part of what Helm pushes.
.PHONY: release
release: k8s $(if $(PUSH),bin/tools/helm4)
release: ## Build all files of a release into bin/release, and push to PUSH: VERSION=v1.0.0
	rm -rf bin/release
	go run ./hack/images --output=bin/release --version='$(VERSION)' --registry='$(REGISTRY)' \
		--kubectl='$(K8S_BIN_DIR)/kubectl' $(if $(PUSH),--push='$(PUSH)') \
		$(if $(PLATFORMS),--platforms='$(PLATFORMS)')
	touch --date=@0 bin/release/openstack-csi-*.tgz
	$(if $(PUSH),bin/tools/helm4 push bin/release/openstack-csi-*.tgz 'oci://$(PUSH)')

.PHONY: node-images
node-images: ## Build the images of all pods of a real node into bin/node/images
	go run ./test/node/images/cmd/node-images

.PHONY: clean
clean: ## Remove all that make built; stop `make run` before
	rm -rf bin .devcluster
