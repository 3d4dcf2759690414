# Loginson's tasks. `make` alone lists them.
#
# What is built by cargo goes to one directory outside the checkout, so that fresh clones start warm.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/loginson/target
# Tests and the demo never ask for a newer toolchain than the one that is there.
export CARGO_TERM_COLOR ?= auto

BIN := $(CARGO_TARGET_DIR)/release/loginson
# What tests drive: built with the tests, so that the workspace is compiled once for all of them.
TEST_BIN := $(CARGO_TARGET_DIR)/debug/loginson
TESTED := --workspace --locked --features loginson-lab/real-servers,loginson/real-servers,loginson-engines/real-servers,loginson-sinks/real-kafka,loginson-alerts/real-servers
WEB_SOURCES := $(shell find web -type f -not -path 'web/node_modules/*' -not -path 'web/dist/*' -not -path 'web/test-results/*' 2>/dev/null)

# How long `make test-long` runs.
KILLS ?= 200
HISTORIES ?= 200000

.DEFAULT_GOAL := help
.PHONY: help demo demo-cluster quick test test-bin test-long hostile build web check fmt lint unit browser test-binary test-parquet test-logcli test-victorialogs test-cluster test-lab lab bench bench-ingest bench-query bench-peers bench-programs bench-storage bench-cluster deny audit test-deps tools clean-demo

help: ## List the tasks
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: build ## Build what is missing, start Loginson with a demo generator, print the address of the page
	@LOGINSON_BIN="$(BIN)" scripts/demo.sh

demo-cluster: build ## Start a whole cluster on this machine: Kafka, an S3 server, PostgreSQL, collectors, stores, query nodes
	@LOGINSON_BIN="$(BIN)" scripts/demo-cluster.sh

build: tools web/dist/index.html ## Build the release binary, the page inside
	cargo build --release --locked -p loginson

web: web/dist/index.html ## Build the page

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	npm --prefix web ci --no-audit --no-fund
	@touch $@

web/dist/index.html: web/node_modules/.package-lock.json $(WEB_SOURCES)
	scripts/build-page.sh

test: tools test-deps web check unit test-parquet hostile browser ## Run the tests that a change has to pass
	@echo "All tests passed."

quick: ## Formatting, lints, and unit tests of the crates that a change touches; installs nothing
	@scripts/quick.py

check: tools web fmt lint deny ## Formatting, lints, types of the page, licences

fmt:
	cargo fmt --all --check

lint: web
	cargo clippy $(TESTED) --all-targets -- -D warnings
	npm --prefix web run check

unit: test-deps web ## Unit, property and black-box tests, and the lab on real stores
	npm --prefix web run test
	cargo test $(TESTED) --no-fail-fast

test-bin: web
	@cargo test $(TESTED) --no-run --quiet

# How long the parts of a cluster are killed in turn.
CLUSTER_SECONDS ?= 1200

test-cluster: build ## A real cluster under load, while its parts are killed in turn (CLUSTER_SECONDS)
	@LOGINSON_BIN="$(BIN)" scripts/test-cluster.py --seconds $(CLUSTER_SECONDS)

test-long: test-binary test-victorialogs test-cluster ## All hostile inputs, VictoriaLogs, the release binary, every store of the lab, and crash tests as long as a night allows (KILLS, HISTORIES)
	@LOGINSON_BIN="$(BIN)" scripts/hostile/run.py
	@LOGINSON_BIN="$(BIN)" scripts/browser-test.sh
	@LOGINSON_BIN="$(BIN)" scripts/test-programs.py
	LOGINSON_KILLS=$(KILLS) cargo test $(TESTED) --test crash -- --nocapture
	cargo test $(TESTED) --tests --no-fail-fast -- --ignored
	CONTRACT_STORES=all cargo test $(TESTED) --test contract -- --nocapture
	LOGINSON_HISTORIES=$(HISTORIES) cargo test $(TESTED) --test oracle -- --nocapture

hostile: test-bin ## Those of the hostile inputs that take a moment, with honest senders beside them and a ceiling of memory
	@LOGINSON_BIN="$(TEST_BIN)" scripts/hostile/run.py --fast

browser: test-bin ## The tour in a real browser, on a desk; `make test-long` also as a phone shows it
	@LOGINSON_BIN="$(TEST_BIN)" scripts/browser-test.sh --grep-invert phone

test-binary: build ## The release binary: its size, its page, and nothing of the machine that built it
	@LOGINSON_BIN="$(BIN)" scripts/test-binary.sh

test-parquet: test-bin ## Exported Parquet, read by DuckDB and pandas
	@LOGINSON_BIN="$(TEST_BIN)" scripts/test-parquet.sh

test-logcli: build ## The API of Grafana Loki, queried by the real logcli; needs Go, builds for minutes the first time
	@LOGINSON_BIN="$(BIN)" scripts/test-logcli.sh

test-victorialogs: build ## LogsQL compared with a real VictoriaLogs; needs Go, builds it once in half a minute
	@LOGINSON_BIN="$(BIN)" scripts/test-victorialogs.sh

test-lab: test-deps ## The lab on real servers: the contract of drivers (CONTRACT_STORES=all for every store), each study at scale smoke
	cargo test $(TESTED) --test contract --test studies -- --include-ignored

lab: build ## Build the lab
	cargo build --release --locked -p loginson-lab

bench: build ## Measure this machine beside its limits; see docs/benchmarks
	cargo build --release --locked -p loginson-collector --example tcp_limit
	@LOGINSON_BIN="$(BIN)" TCP_LIMIT_BIN="$(CARGO_TARGET_DIR)/release/examples/tcp_limit" scripts/bench.sh

bench-ingest: build ## Measure every way in beside its limit, and write docs/benchmarks/ingest.md
	cargo build --release --locked -p loginson-collector -p loginson --examples
	@LOGINSON_BIN="$(BIN)" EXAMPLES_DIR="$(CARGO_TARGET_DIR)/release/examples" scripts/bench-ingest.py

bench-query: build ## Measure queries beside ripgrep, and write docs/benchmarks/query.md
	cargo build --release --locked -p loginson-collector --example tcp_limit
	@LOGINSON_BIN="$(BIN)" EXAMPLES_DIR="$(CARGO_TARGET_DIR)/release/examples" scripts/bench-query.py

bench-cluster: build ## Measure one server, a server for several stores and a cluster on this machine
	@LOGINSON_BIN="$(BIN)" scripts/bench-cluster.py

bench-peers: build ## Measure beside VictoriaLogs (needs Go), ripgrep and rsyslog on mixes of lines, and write docs/benchmarks/peers.md
	@VICTORIALOGS_BIN="$$(scripts/build-victorialogs.sh)" && export VICTORIALOGS_BIN && LOGINSON_BIN="$(BIN)" scripts/bench-peers.py

bench-storage: build ## Measure size, speed of sealing, write amplification, start-up; see docs/benchmarks
	cargo build --release --locked -p loginson-segment --example seal_speed --example clustering
	cargo build --release --locked -p loginson-store --example many_segments
	@LOGINSON_BIN="$(BIN)" EXAMPLES_DIR="$(CARGO_TARGET_DIR)/release/examples" scripts/bench-storage.sh

bench-programs: build ## Measure programs of users beside plain AWK, C and Python; see docs/benchmarks/programs.md
	@LOGINSON_BIN="$(BIN)" scripts/bench-programs.py

deny: ## Licences, duplicate and banned crates, sources
	scripts/cargo-deny.sh check licenses bans sources

audit: ## Known advisories; needs the network for the advisory database
	scripts/cargo-deny.sh check advisories

tools: ## Check that Rust and Node are there
	@scripts/tools.sh

test-deps: ## Install what the tests need beyond Rust and Node (or name the command)
	@scripts/test-deps.sh

clean-demo: ## Remove the demo's data
	rm -rf demo-data
