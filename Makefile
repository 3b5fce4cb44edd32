# The entry point for all tasks. `make help` lists them.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

CACHE ?= $(or $(XDG_CACHE_HOME),$(HOME)/.cache)/aplomb
export APLOMB_CACHE := $(CACHE)
CARGO := cargo
OPS ?= 10000
SEED ?= 7
N ?= 1000

.PHONY: help
help: ## Print this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: build
build: ## Build the optimized aplomb binary in target/release
	$(CARGO) build --release --locked -p aplomb-cli

.PHONY: static
static: ## Build a static aplomb binary, checked with ldd and in an empty root (10 minutes; PROFILE=dev is quicker)
	@tools/make/static

.PHONY: demo
demo: ## Start everything in one process and play five stories (needs Rust, a C compiler and make)
	@tools/make/need cargo cc
	@echo "make: building aplomb (a few minutes the first time), then running \`aplomb demo\`"
	$(CARGO) run --locked -p aplomb-cli -- demo

.PHONY: test
test: ## Everything that must pass, on the box and on a real kube-apiserver
	@tools/make/test

.PHONY: lint
lint: ## Check format, clippy, documentation and dependency rules
	@tools/make/need cargo cc
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked -q
	$(CARGO) package --locked -q --allow-dirty --no-verify -p aplomb
	@tools/make/deny check bans licenses sources

.PHONY: runtime
runtime: controlplane ## Test the promises of the runtime on the box and on a real kube-apiserver, with figures
	$(CARGO) test --locked -q -p aplomb --test acceptance -- --nocapture --include-ignored --test-threads 1

.PHONY: alerts
alerts: ## Test every alert with promtool: when it fires, and when it does not
	@tools/make/alerts

.PHONY: charts
charts: ## Regenerate the manifests of deploy/ and the CRDs of charts/aplomb-crds from the chart and `aplomb crds`
	@tools/make/charts

.PHONY: gateway-api
gateway-api: ## Regenerate the CRDs and types of the Gateway API from the pinned module (needs Go)
	@tools/make/gateway-api

.PHONY: egress
egress: ## Test the promises of the egress operator in virtual time, with figures
	$(CARGO) test --locked -q -p aplomb-egress-operator --test acceptance -- --nocapture --test-threads 1

.PHONY: coder
coder: controlplane ## Test the promises of the Coder operator in virtual time and on a real kube-apiserver, with figures
	$(CARGO) test --locked -q -p aplomb-coder-operator --test acceptance -- --nocapture --test-threads 1
	$(CARGO) test --locked -q --workspace --test coder_on_real

.PHONY: tunnel
tunnel: controlplane ## Test tunnels end to end on a real kube-apiserver, with figures (ACTS="many gateways": only those)
	$(CARGO) test --locked -q --workspace --test tunnel_on_real -- $(ACTS)

.PHONY: chart
chart: controlplane ## Test the charts on a real kube-apiserver: variants, rights, upgrade with live objects, uninstall
	$(CARGO) test --locked -q --workspace --test chart_on_real

.PHONY: browser
browser: ## Test the page in headless Chromium, ten times: green only if requests succeed
	@tools/make/need cargo cc chromium
	$(CARGO) test --locked -q --workspace --test browser

.PHONY: screenshots
screenshots: ## Take screenshots of the page for the documentation: light, dark, phone
	@tools/make/screenshots

.PHONY: bench-tunnel
bench-tunnel: ## Compare requests through a tunnel with direct ones, a plain proxy, rathole and bore
	@tools/make/need cargo cc
	APLOMB_PEERS="$$(tools/make/peers)" $(CARGO) bench --locked -q -p aplomb-cli --bench tunnel

.PHONY: advisories
advisories: ## Check dependencies for known vulnerabilities (downloads a database)
	@tools/make/deny check advisories

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver, kube-controller-manager, kubectl and helm into the cache
	@tools/make/need cargo cc go
	$(CARGO) run --locked -q -p aplomb-controlplane --bin controlplane -- build

.PHONY: conformance
conformance: controlplane ## Run one suite on the box and on a real server, and compare the responses
	$(CARGO) run --locked -q -p aplomb-conformance --bin conformance -- --server both --report target/conformance.json

.PHONY: e2e
e2e: controlplane ## Run Kubernetes' end-to-end specs without nodes on the box and on a real server (10 minutes, 14 more to build it once)
	$(CARGO) run --locked -q -p aplomb-conformance --bin e2e

.PHONY: kubectl
kubectl: controlplane ## Run kubectl and helm scripts on both servers, and compare the outputs (SCRIPTS="edit get": only those)
	$(CARGO) run --locked -q -p aplomb-conformance --bin kubectl -- $(SCRIPTS)

.PHONY: test-cmd
test-cmd: ## Run Kubernetes' own kubectl tests on the box with the stock controller manager (WHAT="pod wait": only those)
	@tools/make/test-cmd $(WHAT)

.PHONY: differential
differential: controlplane ## Run OPS=10000 random operations on both servers (SEED=7), and compare the responses
	$(CARGO) run --locked -q -p aplomb-conformance --bin differential -- --ops $(OPS) --seed $(SEED) --report target/differential.json

.PHONY: seeds
seeds: ## Run N=1000 seeds twice each, and compare the traces byte by byte
	$(CARGO) run --release --locked -q -p aplomb-apiserver --example seeds -- --n $(N)

.PHONY: kills
kills: ## Kill `aplomb box --data-dir` N=1000 times at random moments under write load (10 minutes)
	@tools/make/need cargo cc
	@tools/make/kills $(N)

.PHONY: watchers
watchers: ## Run 1,000 watchers at 200 writes per second on the box and on a real kube-apiserver
	@tools/make/watchers

.PHONY: bench
bench: ## Measure this machine, as ratios to a peer in the same run
	@tools/make/bench

.PHONY: proof
proof: ## Run the long tests and print one line per claim with its figure
	@tools/make/proof
