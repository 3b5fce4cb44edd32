# The only entry point. `make help` lists the words.
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
help: ## This list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | sort | awk -F'\t' '{printf "  make %-14s %s\n", $$1, $$2}'

.PHONY: build
build: ## The aplomb binary, optimised, in target/release
	$(CARGO) build --release --locked -p aplomb-cli

.PHONY: static
static: ## The aplomb binary that needs no library, checked by ldd and in an empty root (10 minutes; PROFILE=dev is quicker)
	@tools/make/static

# The whole workspace is selected, so that `make test` finds the same crates compiled with the same features.
.PHONY: demo
demo: ## Everything on this machine, and five stories played on it (Rust, a C compiler and make are enough)
	@tools/make/need cargo cc
	@echo "make: builds aplomb (a few minutes the first time), then runs \`aplomb demo\`"
	@tools/make/dependencies restore
	$(CARGO) build --locked --workspace --bin aplomb
	@$${CARGO_TARGET_DIR:-target}/debug/aplomb demo

.PHONY: test
test: ## Everything that must pass, on the box and on a real kube-apiserver
	@tools/make/test

.PHONY: check
check: ## Format, clippy and tests of what changed since main (3 minutes after a change of one operator)
	@tools/make/check

.PHONY: lint
lint: ## Format, clippy, documentation, dependency rules
	@tools/make/need cargo cc
	@tools/make/dependencies restore
	$(CARGO) fmt --all --check
	$(CARGO) clippy --workspace --all-targets --locked --message-format=json-render-diagnostics -- -D warnings | tools/make/dependencies save > /dev/null
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --workspace --no-deps --locked -q
	$(CARGO) package --locked -q --allow-dirty --no-verify -p aplomb
	@tools/make/deny check bans licenses sources

.PHONY: runtime
runtime: controlplane ## What the runtime promises, on the box and on a real kube-apiserver, with figures
	$(CARGO) test --locked -q -p aplomb --test acceptance -- --nocapture --include-ignored --test-threads 1

.PHONY: alerts
alerts: ## Every alert under promtool: it fires, and it stays quiet
	@tools/make/alerts

.PHONY: charts
charts: ## Generate the plain manifests of deploy/ and the definitions of charts/aplomb-crds from the chart and `aplomb crds`
	@tools/make/charts

.PHONY: gateway-api
gateway-api: ## Generate the Gateway API definitions and types from the pinned module (needs Go)
	@tools/make/gateway-api

.PHONY: egress
egress: ## What the egress operator promises, in virtual time, with figures
	$(CARGO) test --locked -q -p aplomb-egress-operator --test acceptance -- --nocapture --test-threads 1

.PHONY: coder
coder: controlplane ## What the Coder operator promises, in virtual time and on a real kube-apiserver, with figures
	$(CARGO) test --locked -q -p aplomb-coder-operator --test acceptance -- --nocapture --test-threads 1
	$(CARGO) test --locked -q --workspace --test coder_on_real

.PHONY: tunnel
tunnel: controlplane ## Tunnels end to end on a real kube-apiserver: processes, iroh, curl; with figures (ACTS="many gateways")
	$(CARGO) test --locked -q --workspace --test tunnel_on_real -- $(ACTS)

.PHONY: chart
chart: controlplane ## The charts on a real kube-apiserver: variants, rights, an upgrade with live objects, what is left
	$(CARGO) test --locked -q --workspace --test chart_on_real

.PHONY: browser
browser: ## The page in headless Chromium: green when requests come through, never before, ten times
	@tools/make/need cargo cc chromium
	$(CARGO) test --locked -q --workspace --test browser

.PHONY: screenshots
screenshots: ## Pictures of the page for the documentation: light, dark, phone
	@tools/make/screenshots

.PHONY: bench-tunnel
bench-tunnel: ## Requests through a tunnel beside direct, a plain proxy, rathole and bore in the same run
	@tools/make/need cargo cc
	APLOMB_PEERS="$$(tools/make/peers)" $(CARGO) bench --locked -q -p aplomb-cli --bench tunnel

.PHONY: advisories
advisories: ## Known vulnerabilities in dependencies (needs an outside database)
	@tools/make/deny check advisories

.PHONY: controlplane
controlplane: ## Build etcd, kube-apiserver, kube-controller-manager, kubectl and helm into the cache
	@tools/make/need cargo cc go
	$(CARGO) run --locked -q -p aplomb-controlplane --bin controlplane -- build

.PHONY: conformance
conformance: controlplane ## One suite on the box and on the real server, answers compared
	$(CARGO) run --locked -q -p aplomb-conformance --bin conformance -- --server both --report target/conformance.json

.PHONY: e2e
e2e: controlplane ## Kubernetes' own end-to-end suite, the specs without nodes, on the box and on the real server, JSON and protobuf (10 minutes, 14 more to build it once)
	$(CARGO) run --locked -q -p aplomb-conformance --bin e2e

.PHONY: kubectl
kubectl: controlplane ## Scripts of stock kubectl and helm on both servers, outputs compared (SCRIPTS="edit get": only those)
	$(CARGO) run --locked -q -p aplomb-conformance --bin kubectl -- $(SCRIPTS)

.PHONY: test-cmd
test-cmd: ## Kubernetes' own tests of kubectl on the box, with the stock controller manager beside it (WHAT="pod wait": only those)
	@tools/make/test-cmd $(WHAT)

.PHONY: differential
differential: controlplane ## OPS=10000 random operations on both servers (SEED=7), answers compared
	$(CARGO) run --locked -q -p aplomb-conformance --bin differential -- --ops $(OPS) --seed $(SEED) --report target/differential.json

.PHONY: seeds
seeds: ## N=1000 seeds, each run twice, traces compared byte by byte
	$(CARGO) run --release --locked -q -p aplomb-simulation --example seeds -- --n $(N)

.PHONY: kills
kills: ## N=1000 kills of `aplomb box --data-dir` at random moments under write load (10 minutes)
	@tools/make/need cargo cc
	@tools/make/kills $(N)

.PHONY: watchers
watchers: ## 1,000 watchers at 200 writes a second, on the box and on a real kube-apiserver
	@tools/make/watchers

.PHONY: bench
bench: ## Figures of this machine, as ratios against a peer in the same run
	@tools/make/bench

.PHONY: proof
proof: ## The long runs: one line per claim with its figure
	@tools/make/proof
