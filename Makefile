# Each target does its own set-up, on a machine that has Rust, Python 3.11, a C compiler and (for the peers) apt.
#   make demo    the talk's query over the talk's links, old ways beside ours; writes demo.png
#   make test    all tests that hold a promise
#   make quick   formatting, lints, and the unit tests of the crates that differ from main: two minutes after a build
#   make check   formatting, lints, licences, the project's own rules
#   make soak    what takes long: kills, prepared bottlenecks, real browsers, sanitizers, packages, fuzzing
#   make bench   side by side with ROOT, uproot and a raw socket (half an hour; BENCH="--quick" for less)
#   make data    the talk's file alone (target/data/talk.root)
#   make build   everything in the profile `ci`, as tests use it (target/ci)
#   make release the programs that benches and packages use (target/release)
#   make python  the Python package in target/venv
#   make coverage        the share of each crate's lines that the Rust tests reach
#   make docs    the documentation site (guides, reference, decisions) in target/docs
#   make packages        the wheel, the source package, .deb and .rpm in dist/
#   make packages-test   installs each of them into an empty environment and runs a query there
#   make fuzz    every fuzz target for ten minutes, one after the other (SECONDS_EACH=60 for less)

PYTHON := target/venv/bin/python
# One profile, one set of packages and features, one folder: what one step has built is there for the next.
CI := --profile ci --locked
# The tests that need network namespaces must not be skipped in CI.
ifeq ($(shell [ -n "$$CI" ] && [ "$$(id -u)" = 0 ] && echo yes),yes)
export HITHER_REQUIRE_NETNS := 1
endif

.PHONY: demo test run-tests quick check soak bench data build release nextest peers fuzz python python-lints docs packages \
	packages-test soak-tests soak-sanitizers coverage

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

# Peers and data come while the crates are built.
PYTEST := $(PYTHON) -m pytest tests
test:
	@(tools/setup-peers && $(PYTHON) -m bench.generators.talkfile >/dev/null) & peers=$$!; \
		$(MAKE) build nextest; built=$$?; \
		wait $$peers && exit $$built
	tools/timed wheel $(MAKE) python
	tools/timed python-lints $(MAKE) python-lints
	$(MAKE) run-tests

# The tests as they are built, all of them, whatever fails; `tools/repeat-tests` runs them again and again. Tests with links
# run in series, and then those that wait for machines of their own, four at a time. Only files that have such tests are
# imported.
MARKED = $$(grep -rlE --include="test_*.py" "mark\.$(1)\b" tests) -m
run-tests:
	@code=0; \
	tools/timed rust-tests tools/linted cargo nextest run --workspace --cargo-profile ci --locked || code=1; \
	tools/timed python-tests $(PYTEST) -m "not (packages or soak or pair or netns)" -n 4 --dist loadfile \
		--no-loadscope-reorder || code=1; \
	tools/timed python-links $(PYTHON) -m pytest $(call MARKED,netns) "netns and not (pair or soak)" || code=1; \
	tools/timed python-pairs $(PYTHON) -m pytest $(call MARKED,pair) "pair and not soak" -n 4 --maxschedchunk 1 || code=1; \
	exit $$code

# Everything, with lints, so that each step sees the same features of each dependency.
build:
	tools/timed build tools/linted cargo build --workspace --lib --bins --tests --examples $(CI)

nextest:
	cargo nextest --version >/dev/null 2>&1 || \
		CARGO_PROFILE_DEV_DEBUG=0 tools/timed nextest cargo install --debug --locked --quiet --no-default-features --features default-no-update cargo-nextest@0.9.151

# The package in target/venv, from the library that `make build` has made.
python: build
	tools/setup-peers
	PATH="$(CURDIR)/target/venv/bin:$$PATH" $(PYTHON) tools/build-wheel target/ci/lib_core.so target/wheels
	$(PYTHON) -m pip install --disable-pip-version-check --quiet --no-deps --force-reinstall target/wheels/*.whl

python-lints:
	$(PYTHON) -m ruff check
	$(PYTHON) -m ruff check --isolated --select F,B,E9,PLE tests tools
	$(PYTHON) -m ruff format --check
	$(PYTHON) -m mypy
	$(PYTHON) -m mypy.stubtest hither._core
	target/venv/bin/typos

# The unit tests of the crates that differ from the last common commit with main, or from it.
quick: nextest
	cargo fmt --all --check
	$(MAKE) build
	tools/check
	tools/linted cargo nextest run --workspace --lib --cargo-profile ci --locked --no-tests pass -E "$$(tools/changed-crates)"

check:
	cargo fmt --all --check
	$(MAKE) build
	RUSTDOC=$(CURDIR)/tools/rustdoc-of-build RUSTDOCFLAGS="-D warnings" \
		tools/timed rustdoc tools/linted cargo test --doc --workspace $(CI)
	tools/timed licences tools/check-licences
	tools/timed own-rules tools/check

# The reference is made from the docstrings of the package, which is installed for that.
docs:
	tools/setup-peers docs
	PATH="$(CURDIR)/target/venv/bin:$$PATH" MATURIN_PEP517_ARGS="--profile $(DEMO_PROFILE)" $(PYTHON) -m pip install \
		--disable-pip-version-check --quiet --no-deps --no-build-isolation --force-reinstall .
	$(PYTHON) -m sphinx -W --keep-going -q docs target/docs
	@echo "docs: target/docs/index.html"

bench: release data
	$(PYTHON) -m bench.run $(BENCH)

# The command, libhither for the plug-in for ROOT, and the programs that benches run.
release:
	cargo build --release --locked -p hither -p hither-capi -p hither-cli -p hither-testkit -p hither-wan -p hither-bench

# The compiler that was tested with cargo-fuzz; the sanitizers need a nightly one.
NIGHTLY := nightly-2026-05-20
SECONDS_EACH := 600
fuzz:
	rustup toolchain install --profile minimal $(NIGHTLY)
	command -v cargo-fuzz >/dev/null || cargo install --locked --quiet cargo-fuzz@0.13.2
	cd fuzz && for target in $$(cargo +$(NIGHTLY) fuzz list); do \
		mkdir -p corpus/$$target && cargo +$(NIGHTLY) fuzz run $$target corpus/$$target seeds/$$target -- \
		-max_total_time=$(SECONDS_EACH) -rss_limit_mb=1024 -timeout=10 || exit 1; done

# The parts do not depend on each other: `make -k soak` goes on after one that fails.
soak: soak-tests soak-sanitizers packages-test fuzz
soak-tests: build nextest python
	tools/setup-peers soak
	$(PYTHON) -m bench.generators.talkfile >/dev/null
	tools/linted cargo nextest run --workspace --cargo-profile ci --locked --run-ignored only
	$(PYTHON) -m pytest tests -m soak
soak-sanitizers:
	tools/thread-sanitizer $(NIGHTLY)

coverage: nextest
	tools/coverage

data:
	tools/setup-peers demo
	$(PYTHON) -m bench.generators.talkfile >/dev/null

peers:
	tools/setup-peers

packages:
	packaging/build

packages-test: packages
	target/packages/venv/bin/python -m pytest -m packages tests/packages
