# Loginson's tasks. `make` alone lists them.
#
# What is built by cargo goes to one directory outside the checkout, so that fresh clones start warm.
export CARGO_TARGET_DIR ?= $(HOME)/.cache/loginson/target
# Tests and the demo never ask for a newer toolchain than the one that is there.
export CARGO_TERM_COLOR ?= auto

BIN := $(CARGO_TARGET_DIR)/release/loginson
# The static one, by musl.
STATIC_TARGET := $(shell uname -m)-unknown-linux-musl
STATIC_BIN := $(CARGO_TARGET_DIR)/$(STATIC_TARGET)/release/loginson
SQL_BIN := $(CARGO_TARGET_DIR)/release/loginson-sql
DEMO_BIN := $(CARGO_TARGET_DIR)/demo/loginson
BENCH_BIN := $(CARGO_TARGET_DIR)/release/loginson-bench
# What tests drive: built with the tests, so that the workspace is compiled once for all of them.
TEST_BIN := $(CARGO_TARGET_DIR)/debug/loginson
WEB_SOURCES := $(shell find web -type f -not -path 'web/node_modules/*' -not -path 'web/dist/*' -not -path 'web/test-results/*' 2>/dev/null)

# How long `make test-long` runs.
KILLS ?= 200
HISTORIES ?= 200000
TAIL_MINUTES ?= 30

.DEFAULT_GOAL := help
.PHONY: help demo demo-bin demo-cluster static quick test test-bin test-long hostile build web documents browser test-binary test-loki test-elastic test-mcp test-otlp test-senders test-kafka test-keycloak test-pushes test-victorialogs test-cluster test-lab lab lab-again lab-documents packages test-packages test-chart bench bench-bin bench-ingest bench-query bench-peers bench-programs bench-storage bench-cluster bench-growth bench-memory bench-protection instructions deny audit test-deps tools clean-demo sql test-sql ways bench-ways test-migrate

help: ## List the tasks
	@grep -E '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "  make %-12s %s\n", $$1, $$2}'

demo: demo-bin ## Build what is missing, start Loginson with a demo generator, print the address of the page
	@LOGINSON_BIN="$(DEMO_BIN)" scripts/demo.sh

demo-cluster: demo-bin ## Start a whole cluster on this machine: Kafka, an S3 server, PostgreSQL, collectors, stores, query nodes
	@LOGINSON_BIN="$(DEMO_BIN)" scripts/demo-cluster.sh

demo-bin: tools web/dist/index.html
	cargo build --profile demo --locked -p loginson

build: tools web/dist/index.html ## Build the release binary, the page inside
	cargo build --release --locked -p loginson

web: web/dist/index.html ## Build the page

web/node_modules/.package-lock.json: web/package.json web/package-lock.json
	npm --prefix web ci --no-audit --no-fund
	@touch $@

web/dist/index.html: web/node_modules/.package-lock.json $(WEB_SOURCES)
	scripts/build-page.sh

test: tools test-deps web ## Run the tests that a change has to pass
	@scripts/test.py

quick: ## Formatting, lints, and unit tests of the crates that a change touches; installs nothing
	@scripts/test.py --quick

# How long the parts of a cluster are killed in turn.
CLUSTER_SECONDS ?= 1200

test-cluster: build ## A real cluster under load, while its parts are killed in turn (CLUSTER_SECONDS)
	@LOGINSON_BIN="$(BIN)" scripts/test-cluster.py --seconds $(CLUSTER_SECONDS)

instructions: ## Count the instructions of a fixed workload under valgrind; fails where a phase takes 3 % more than before
	@scripts/test-instructions.py

test-long: instructions test-binary test-victorialogs test-cluster test-packages test-chart test-sql test-migrate test-keycloak ## All hostile inputs, VictoriaLogs, the release binary, every store of the lab, and crash tests as long as a night allows (KILLS, HISTORIES, TAIL_MINUTES)
	@LOGINSON_BIN="$(BIN)" scripts/hostile/run.py
	@LOGINSON_BIN="$(BIN)" scripts/browser-test.sh
	@LOGINSON_BIN="$(BIN)" TAIL_MINUTES=$(TAIL_MINUTES) scripts/browser-test.sh long.spec
	@LOGINSON_BIN="$(BIN)" scripts/test-programs.py
	@LOGINSON_BIN="$(BIN)" scripts/test-memory.py
	@LOGINSON_BIN="$(BIN)" scripts/fault-matrix.py
	cargo check --manifest-path fuzz/Cargo.toml --locked
	scripts/test.py --ignored --stuck-minutes 240
	CONTRACT_STORES=all scripts/test.py --lab --only lab --stuck-minutes 240
	LOGINSON_KILLS=$(KILLS) scripts/test.py --only "loginson crash" --stuck-minutes 240
	LOGINSON_RESTRICTED=200 scripts/test.py --only "node unit" --stuck-minutes 240
	LOGINSON_HOSTILE=100000 scripts/test.py --only "api unit" --stuck-minutes 240
	LOGINSON_HISTORIES=$(HISTORIES) scripts/test.py --only "store oracle" --stuck-minutes 1000

documents: test-bin ## Run every command that README and docs show, and compare its output
	@LOGINSON_BIN="$(TEST_BIN)" scripts/test-documents.py

test-bin: web
	cargo build --locked -p loginson

hostile: test-bin ## Those of the hostile inputs that take a moment, with honest senders beside them and a ceiling of memory
	@LOGINSON_BIN="$(TEST_BIN)" scripts/hostile/run.py --fast

browser: test-bin ## The tour in a real browser, on a desk; `make test-long` also as a phone shows it
	@LOGINSON_BIN="$(TEST_BIN)" scripts/browser-test.sh --grep-invert phone

test-binary: build ## The release binary: its size, its page, and nothing of the machine that built it
	@LOGINSON_BIN="$(BIN)" scripts/test-binary.sh

test-loki: build ## The API of Grafana Loki on the built binary, asked by a client in Python; needs nothing else
	@LOGINSON_BIN="$(BIN)" scripts/test-loki.py

test-elastic: build ## Elasticsearch's search API, asked by its clients in Python and Node and by OpenSearch's; installs them once
	@LOGINSON_BIN="$(BIN)" scripts/test-elastic.py

test-mcp: build ## `loginson mcp`, asked by versions 1 and 2 of the official SDK in Python; installs them once
	@LOGINSON_BIN="$(BIN)" scripts/test-mcp.py

sql: ## Build loginson-sql, in a workspace of its own; several minutes for the first time
	cargo build --release --locked --manifest-path sql/Cargo.toml

test-sql: build sql ## loginson-sql: its unit tests, random statements computed in two ways, psql, psycopg, pandas, SQLAlchemy, JDBC; installs them once
	cargo test --release --locked --manifest-path sql/Cargo.toml
	@LOGINSON_BIN="$(BIN)" LOGINSON_SQL_BIN="$(SQL_BIN)" scripts/test-sql.py

test-otlp: build ## Logs of OpenTelemetry's SDKs in Python, JavaScript, Go and Java, 100,000 of each exporter, with a kill; installs them once
	@LOGINSON_BIN="$(BIN)" scripts/test-otlp.py

test-senders: build ## Senders of syslog, GELF, Fluent, Beats, RELP, Splunk, Datadog, Loki, Elasticsearch and clouds, 100,000 lines of each, with a kill; needs Node, Go and rsyslog, installs the senders once
	@LOGINSON_BIN="$(BIN)" scripts/test-senders.py

test-pushes: build ## vlagent, the journal's upload, InfluxDB's and OpenTelemetry's clients, 100,000 numbers of each, with a kill; needs Go, installs the senders once
	@LOGINSON_BIN="$(BIN)" scripts/test-pushes.py

ways: ## Write the table of ways in, docs/ways.md, from what the tests of senders found
	@scripts/ways.py

test-kafka: build ## Topics of a real Kafka, 100,000 records, with two kills, and two servers in one group; needs Java and Maven
	@LOGINSON_BIN="$(BIN)" scripts/test-kafka.py

test-keycloak: build ## Logins by a real Keycloak: groups, new keys, logouts, locked users; needs Java 17 and Maven, fetches it once
	@LOGINSON_BIN="$(BIN)" scripts/test-keycloak.py

test-victorialogs: build ## LogsQL compared with a real VictoriaLogs; needs Go, builds it once in half a minute
	@LOGINSON_BIN="$(BIN)" scripts/test-victorialogs.sh

test-migrate: build ## Lines of a real VictoriaLogs taken over with kills, each compared; needs Go, builds it once in half a minute
	@VICTORIALOGS_BIN="$$(scripts/build-victorialogs.sh)" && export VICTORIALOGS_BIN && LOGINSON_BIN="$(BIN)" scripts/test-migrate.py

test-lab: test-deps ## The lab on real servers: the contract of drivers (CONTRACT_STORES=all for every store), each study at scale smoke
	CONTRACT_STORES="$${CONTRACT_STORES:-usual}" scripts/test.py --lab --only lab
	scripts/test.py --ignored --only lab --stuck-minutes 240

packages: build ## Debian and RPM packages, an image for containers, SBOM, checksums (signed with LOGINSON_SIGNING_KEY), in packages/; after make static, its binary too
	@LOGINSON_BIN="$(BIN)" LOGINSON_STATIC_BIN="$(wildcard $(STATIC_BIN))" scripts/packages.py

static: tools web/dist/index.html ## Build a binary that needs no library of the system; needs musl-tools and the target of rustup
	@command -v musl-gcc >/dev/null || { echo "musl-gcc is missing: apt-get install musl-tools"; exit 1; }
	@rustup target list --installed | grep -q '^$(STATIC_TARGET)$$' || rustup target add $(STATIC_TARGET)
	cargo build --release --locked -p loginson --target $(STATIC_TARGET)

test-packages: build ## Install the packages in a fresh Debian, upgrade, purge; run the image, and the static binary if there is one; needs root, debootstrap and rpm
	@LOGINSON_BIN="$(BIN)" LOGINSON_STATIC_BIN="$(wildcard $(STATIC_BIN))" scripts/test-packages.py

test-chart: build ## Render the chart for Kubernetes by helm, check it by schemas of Kubernetes, and metrics and alerts by Prometheus' parsers; needs Go
	@LOGINSON_BIN="$(BIN)" scripts/test-chart.py

lab: build ## Build the lab
	cargo build --release --locked -p loginson-lab

lab-again: lab ## Make the trials of one store of a published run again (STUDY=collectors STORE=kafka), resumable, and write its figures into the documents
	@LAB="$(dir $(BIN))loginson-lab" scripts/lab-again.sh "$(STUDY)" "$(STORE)"

lab-documents: ## Write the published reports of the lab, and the numbers of docs/lab.md and README.md, anew from their trials
	LAB_REWRITE=1 cargo test -q --locked -p loginson-lab --test all -- report::published

bench-bin: build
	cargo build --release --locked -p loginson-bench

bench: bench-bin ## Measure this machine beside its limits; see docs/benchmarks
	@LOGINSON_BIN="$(BIN)" LOGINSON_BENCH="$(BENCH_BIN)" scripts/bench.sh

bench-ingest: bench-bin ## Measure every way in beside its limit, and write docs/benchmarks/ingest.md
	@LOGINSON_BIN="$(BIN)" LOGINSON_BENCH="$(BENCH_BIN)" scripts/bench-ingest.py

bench-query: bench-bin ## Measure queries beside ripgrep, and write docs/benchmarks/query.md
	@LOGINSON_BIN="$(BIN)" LOGINSON_BENCH="$(BENCH_BIN)" scripts/bench-query.py

bench-cluster: build ## Measure one server, a server for several stores and a cluster on this machine
	@LOGINSON_BIN="$(BIN)" scripts/bench-cluster.py

bench-growth: build ## Measure how lines/s grow with stores of a quarter of a core; needs root
	@LOGINSON_BIN="$(BIN)" scripts/bench-growth.py --write

bench-peers: build ## Measure beside VictoriaLogs (needs Go), ripgrep and rsyslog on mixes of lines, and write docs/benchmarks/peers.md
	@VICTORIALOGS_BIN="$$(scripts/build-victorialogs.sh)" && export VICTORIALOGS_BIN && LOGINSON_BIN="$(BIN)" scripts/bench-peers.py

bench-storage: bench-bin ## Measure size, speed of sealing, write amplification, start-up; see docs/benchmarks
	@LOGINSON_BIN="$(BIN)" LOGINSON_BENCH="$(BENCH_BIN)" scripts/bench-storage.sh

bench-memory: build ## Watch memory while 7.2 million lines arrive and an operator asks about them
	@LOGINSON_BIN="$(BIN)" scripts/bench-memory.py

bench-protection: build ## Measure what encryption, the chain, tokens, audit, HTTPS and a filter cost, and write docs/benchmarks/protection.md
	@LOGINSON_BIN="$(BIN)" scripts/bench-protection.py

bench-ways: bench-bin ## Measure each way in beside its decoder alone, in one process without a store
	@"$(BENCH_BIN)" ways_speed

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
