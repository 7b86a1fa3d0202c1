# Users need two targets: `make compare` and `make test`. Both install what they
# need (and say so), and run as root or through sudo. Other kernels are kept in
# /var/lib/venturi/kernels, and not installed.

GO   ?= go
SUDO := $(if $(filter 0,$(shell id -u)),,sudo)

# A source tree without a readable git still builds; it is just not stamped.
VERSION := $(shell git describe --tags --always --dirty 2>/dev/null)
BUILD   := CGO_ENABLED=0 $(GO) build -trimpath -buildvcs=$(if $(VERSION),auto,false) \
	-ldflags "-s -w -X github.com/venturi-net/venturi/internal/cli.version=$(VERSION)"
SOURCES := go.mod go.sum $(shell find cmd internal result studies -name '*.go' -not -name '*_test.go') $(wildcard studies/*.yaml)

# Programs that the tests run: PROGRAM:PACKAGE.
TEST_TOOLS := qperf:qperf iperf3:iperf3 ping:iputils-ping ip:iproute2 nft:nftables iptables-nft:iptables /usr/sbin/ethtool:ethtool \
	/usr/sbin/sysctl:procps /usr/sbin/ovs-vswitchd:openvswitch-switch \
	/usr/bin/ovn-northd:ovn-central /usr/bin/ovn-controller:ovn-host /usr/sbin/bird:bird2 \
	/usr/sbin/runc:runc ssh:openssh-client /usr/sbin/sshd:openssh-server nsenter:util-linux qemu-system-x86_64:qemu-system-x86 /usr/sbin/modprobe:kmod \
	clang:clang llvm-strip:llvm protoc:protobuf-compiler /usr/include/bpf/bpf_helpers.h:libbpf-dev /usr/include/linux/bpf.h:linux-libc-dev

# The race detector is linked with C.
RACE_TOOLS := gcc:gcc /usr/include/stdlib.h:libc6-dev

# A browser shows whether the figures of a page can be read.
LONG_TOOLS := chromium:chromium

# Kernels for tests in virtual machines: one that most of them run under, and one
# that has everything that any path needs. A PART of the tests runs under each of
# TEST_KERNELS.
KERNELS      := 6.1 6.12
TEST_KERNELS ?= 5.10 6.1 6.12
PART         ?= suite

.PHONY: help compare test test-long test-kernels agree studies bench-stats bench-report bench-tune bench-rates bench-fast bench-undo bench-replay test-mutations bench-up build dist lint figures generate fuzz fuzz-bpf clean setup setup-test setup-long

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r t d; do printf '  %-12s %s\n' "$$t" "$$d"; done

compare: setup bin/venturi ## measure host, routed and vxlan in a lab (about 90 seconds; ARGS='...' is passed on)
	$(SUDO) bin/venturi compare $(ARGS)

test: setup-test bin/venturi ## run the tests, the privileged ones included (12 to 13 minutes on two cores)
	$(SUDO) bin/venturi kernel fetch $(KERNELS)
	GO=$(GO) exec scripts/test

test-long: setup-long bin/venturi ## run the long tests in full size, and concurrent code with the race detector (40 minutes)
	$(SUDO) bin/venturi kernel fetch $(KERNELS)
	GO=$(GO) exec scripts/test long

.PHONY: test-cluster
test-cluster: setup-test ## raise a Kubernetes cluster of two nodes, and run the tests on it (10 to 15 minutes; the first time, 8 to 20 more to build Kubernetes)
	$(MAKE) image IMAGE=venturi.test/venturi:1
	$(if $(SUDO),sudo --preserve-env=PATH) env GO=$(GO) scripts/test-cluster

.PHONY: bench-cluster
bench-cluster: setup-test ## raise the same cluster, and compare ways to measure two pods: from within, from outside and by qperf (15 minutes; BENCH=FastPath: compare its fast path with a lab's)
	$(MAKE) image IMAGE=venturi.test/venturi:1
	$(if $(SUDO),sudo --preserve-env=PATH) env GO=$(GO) scripts/test-cluster -bench '^BenchmarkCluster$(or $(BENCH),Agrees)$$' 7

test-kernels: setup-test bin/venturi ## run the tests of paths and of devices' knobs under several kernels (less than 30 minutes; PART=all: the fast path too, up to two hours a kernel)
	$(SUDO) bin/venturi kernel fetch $(sort $(KERNELS) $(TEST_KERNELS))
	GO=$(GO) scripts/test-kernels $(PART) $(TEST_KERNELS)

agree: setup-test bin/venturi ## compare our figures with those of qperf, iperf3, ping, and netperf and sockperf where they are (about 20 minutes)
	$(SUDO) bin/venturi verify agree $(ARGS)

studies: setup bin/venturi ## run all five studies, and write their tables into docs/studies (about an hour; one whose modules this kernel lacks runs under kernel 6.1; NAMES='qinq'; STUDY_ARGS='--kernel 6.12')
	$(SUDO) STUDY_ARGS='$(STUDY_ARGS)' KERNEL=$(firstword $(KERNELS)) scripts/studies $(NAMES)

bench-stats: setup bin/venturi ## count false alarms and missed differences of verdicts (about half an hour)
	$(SUDO) bin/venturi verify stats $(ARGS)

bench-report: setup ## report a record of ten million slices, and one that is cut, and print time and memory (a minute)
	$(GO) test -count=1 -run '^$$' -bench Large -benchtime 1x ./internal/report

bench-tune: setup bin/venturi-bench ## plant faults, and count which of them tune --prove fixes (up to 4 hours)
	$(SUDO) bin/venturi-bench proofs $(ARGS)

bench-rates: setup bin/venturi-bench ## check that schedules and rates are kept (about 10 minutes; ARGS='--only schedule')
	$(SUDO) bin/venturi-bench rates $(ARGS)

bench-fast: setup bin/venturi-bench ## compare the fast path with the host network (about an hour; ARGS='--only connections')
	$(SUDO) bin/venturi-bench fast $(ARGS)

bench-undo: setup-test ## play 20,000 random sequences of knobs, kill each, and compare every byte after undo (about an hour; SEQUENCES='N [FIRST]')
	GO=$(GO) scripts/bench-undo $(SEQUENCES)

PACKETS ?= 5000
CASES   ?= 1000
bench-replay: setup-test ## replay random packets and 1,000 generated cases with and without the fast path (half an hour; PACKETS and CASES: 'N' or 'SEED:N')
	GO=$(GO) scripts/bench-replay $(PACKETS) $(CASES)

test-mutations: setup-test ## remove checks of the fast path one at a time, and require that generated cases notice each (7 to 15 minutes; NAMES='stamp programs')
	GO=$(GO) scripts/test-mutations $(NAMES)

FUZZ_PACKETS ?= 1000000
fuzz-bpf: setup-test ## compare each program of the fast path with a reference in Go over a million generated packets (FUZZ_PACKETS: 'N' or 'SEED:N')
	GO=$(GO) scripts/fuzz-bpf $(FUZZ_PACKETS)

bench-up: setup-test ## time how long labs take to come up, each with its limit
	$(GO) test -count=1 -run '^$$' -bench Up -benchtime 5x $(if $(SUDO),-exec 'sudo --preserve-env=PATH') ./internal/path

build: setup bin/venturi ## build bin/venturi

bin/venturi bin/venturi-bench: $(SOURCES)
	$(BUILD) -o $@ ./cmd/$(@F)

dist: setup ## build one static binary, dist/venturi
	$(BUILD) -o dist/venturi ./cmd/venturi

lint: setup ## run gofmt, go vet, staticcheck and deadcode
	GO=$(GO) scripts/lint

# Each figure is named after its kind, and lies beside the record that it is drawn from.
figures: setup bin/venturi ## draw the figures of the docs anew, from the records beside them
	for f in docs/figures/*/*.svg; do \
		bin/venturi report "$$(dirname "$$f")" --format svg --figure "$$(basename "$$f" .svg)" > "$$f.new" && mv "$$f.new" "$$f" || exit 1; \
	done

generate: setup ## regenerate code (needs protoc, clang 14 and libbpf's headers)
	$(GO) generate ./...

# Runs of each fuzz test, or a time: 20s.
FUZZTIME ?= 100000x
fuzz: setup ## run every fuzz test for a short time (FUZZTIME=20s)
	GO=$(GO) scripts/fuzz $(FUZZTIME)

# The name that the image has where it is loaded.
IMAGE ?= venturi:$(or $(VERSION),latest)
.PHONY: image
image: dist ## write dist/venturi-image.tar, an OCI image of the static binary alone (IMAGE=registry/name:tag)
	$(GO) run ./cmd/venturi-image -name $(IMAGE) -arch $$($(GO) env GOARCH)

# Krew wants semantic versions, and to know where the archives will be.
.PHONY: krew
krew: setup ## write archives and dist/venturi.yaml, the manifest for Krew (VERSION=v1.2.3 URL=where they will be)
	@[ -n "$(URL)" ] || { echo "give URL=, the folder that the archives will be downloaded from" >&2; exit 2; }
	for arch in amd64 arm64; do GOARCH=$$arch $(BUILD) -o dist/venturi-linux-$$arch ./cmd/venturi || exit 1; done
	scripts/krew dist $(VERSION) '$(URL)'

clean: ## remove what was built (not venturi-runs/)
	rm -rf bin dist

setup:
	@GO=$(GO) scripts/setup
setup-test:
	@GO=$(GO) scripts/setup $(TEST_TOOLS)
	@GO=$(GO) scripts/modules
setup-long:
	@GO=$(GO) scripts/setup $(TEST_TOOLS) $(RACE_TOOLS) $(LONG_TOOLS)
	@GO=$(GO) scripts/modules
