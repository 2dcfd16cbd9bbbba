# Each target does its own set-up, on a machine that has Rust, Python 3.11, a C compiler and (for the peers) apt.
#   make demo    the talk's query over the talk's links, old ways beside ours; writes demo.png
#   make test    all tests
#   make check   formatting, lints, licences, the project's own rules
#   make bench   side by side with ROOT, uproot and a raw socket (half an hour; BENCH="--quick" for less)
#   make data    the talk's file alone (target/data/talk.root)
#   make interleavings   the cache under schedules chosen by shuttle; part of make test
#   make python  the Python package in target/venv, its types and style checked; part of make test
#   make docs    the documentation site (guides, reference, decisions) in target/docs
#   make packages        the wheel, the source package, .deb and .rpm in dist/
#   make packages-test   installs each of them into an empty environment and runs a query there
#   make soak    the C library under the sanitizers of addresses and threads, and valgrind, and its ABI beside that of the first
#                version (abigail-tools)
#   make fuzz    every fuzz target for ten minutes, one after the other (SECONDS_EACH=60 for less)

PYTHON := target/venv/bin/python
# The tests that need network namespaces must not be skipped in CI.
ifeq ($(shell [ -n "$$CI" ] && [ "$$(id -u)" = 0 ] && echo yes),yes)
export HITHER_REQUIRE_NETNS := 1
endif

.PHONY: demo test check bench data peers build fuzz interleavings python docs packages packages-test soak

# `demo` and `docs` use the release build where there is one; else they make a quicker one, in the profile `demo`.
DEMO_PROFILE := $(if $(wildcard target/release/hither),release,demo)
demo:
	@echo "demo: building hither (5 minutes on two cores); meanwhile fetching nginx and ROOT and"
	@echo "demo: writing the file to read (275 MB; 2 minutes); then the query over seven links (4 minutes)"
	@(tools/setup-peers demo && $(PYTHON) -m bench.generators.talkfile >/dev/null) & peers=$$!; \
		cargo build --profile $(DEMO_PROFILE) --locked -p hither-cli -p hither-testkit -p hither-wan \
			--bin hither --bin hither-wan --bin hither-proxy; built=$$?; \
		wait $$peers && exit $$built
	HITHER_BIN_DIR=$(CURDIR)/target/$(DEMO_PROFILE) $(PYTHON) -m bench.demo

test: build peers data interleavings python
	cargo test --workspace --locked
	$(PYTHON) -m pytest tests

# The package as `pip install .` makes it, in target/venv; with the crates and the flags of `make build`.
python: build peers
	PATH="$(CURDIR)/target/venv/bin:$$PATH" $(PYTHON) -m pip install --disable-pip-version-check --quiet --no-deps \
		--no-build-isolation --force-reinstall .
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy
	$(PYTHON) -m mypy.stubtest hither._core

# The reference is made from the docstrings of the package, which is installed for that.
docs:
	tools/setup-peers docs
	PATH="$(CURDIR)/target/venv/bin:$$PATH" MATURIN_PEP517_ARGS="--profile $(DEMO_PROFILE)" $(PYTHON) -m pip install \
		--disable-pip-version-check --quiet --no-deps --no-build-isolation --force-reinstall .
	$(PYTHON) -m sphinx -W --keep-going -q docs target/docs
	@echo "docs: target/docs/index.html"

# In a folder of its own: with other flags everything is another build.
interleavings:
	RUSTFLAGS="--cfg shuttle" cargo test --locked --target-dir target/shuttle -p hither-core --lib interleavings

check:
	cargo fmt --all --check
	cargo clippy --workspace --all-targets --locked -- -D warnings
	RUSTDOCFLAGS="-D warnings" cargo doc --workspace --no-deps --locked
	command -v cargo-deny >/dev/null || cargo install --debug --locked --quiet cargo-deny@0.20.2
	cargo deny --locked check licenses bans sources
	tools/check

bench: build peers data
	cargo build --release --locked -p hither -p hither-simulate -p hither-testkit --examples
	$(PYTHON) -m bench.run $(BENCH)

# The compiler that was tested with cargo-fuzz; the sanitizers need a nightly one.
NIGHTLY := nightly-2026-05-20
SECONDS_EACH := 600
fuzz:
	rustup toolchain install --profile minimal $(NIGHTLY)
	command -v cargo-fuzz >/dev/null || cargo install --locked --quiet cargo-fuzz@0.13.2
	cd fuzz && for target in $$(cargo +$(NIGHTLY) fuzz list); do \
		mkdir -p corpus/$$target && cargo +$(NIGHTLY) fuzz run $$target corpus/$$target seeds/$$target -- \
		-max_total_time=$(SECONDS_EACH) -rss_limit_mb=1024 -timeout=10 || exit 1; done

soak: python
	cargo test --locked -p hither-capi --test it -- --ignored
	tools/thread-sanitizer $(NIGHTLY)

data:
	tools/setup-peers demo
	$(PYTHON) -m bench.generators.talkfile >/dev/null

peers:
	tools/setup-peers

packages:
	packaging/build

packages-test:
	target/packages/venv/bin/python -m pytest -m packages tests/packages

# What tests and the demo run, and libhither for the plug-in for ROOT. In one call, with one set of features: most of what the wheel is made of (`make python`) is
# here already.
build:
	cargo build --release --locked -p hither -p hither-capi -p hither-cli -p hither-testkit -p hither-wan --lib --bins \
		--example read_ranges
