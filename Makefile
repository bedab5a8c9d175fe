# `make run` serves the demo event; `make test` passes every test. Both install what is missing first.

SHELL := /bin/bash
CARGO := cargo
# Programs that only building and testing need; kept with the build, and out of the way of what the machine has.
TOOLS := $(CURDIR)/target/tools
DIESEL_VERSION := 2.3.14
DIESEL := $(TOOLS)/bin/diesel
# On a machine of one's own `sudo` asks; root, as in a container, needs none.
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

# Where the consumers in another language live that the tests run beside ours.
PYTHON := $(CURDIR)/target/python
PYTHON_NEEDS := tests/it/jobs/requirements.txt

.PHONY: run test lint docs schema schema-check system browser python

run: system
	$(CARGO) run --release --quiet -- serve --demo

test: system browser python
	$(CARGO) test
	$(MAKE) --no-print-directory schema-check

# What CI asks for before the tests.
lint:
	$(CARGO) fmt --check
	$(CARGO) clippy --all-targets -- -D warnings

docs:
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --no-deps --quiet

# Writes src/db/schema.rs anew from the migrations.
schema: system $(DIESEL)
	tests/with-schema.sh $(DIESEL) print-schema > target/schema.rs
	cp target/schema.rs src/db/schema.rs

# Fails if src/db/schema.rs is not what the migrations make.
schema-check: system $(DIESEL)
	tests/with-schema.sh $(DIESEL) print-schema > target/schema.rs
	diff -u src/db/schema.rs target/schema.rs

$(DIESEL):
	$(CARGO) install diesel_cli --version $(DIESEL_VERSION) --locked --no-default-features --features postgres-bundled \
	  --root $(TOOLS) --target-dir target/tools-build

# PostgreSQL's programs, and a C compiler for the client library that is built in.
system:
	@tests/install.sh postgresql gcc make

# A real browser, for the tests of the pages.
browser:
	@tests/install.sh chromium chromium-driver

# Python with what those consumers need, in an environment of its own.
python: $(PYTHON)/installed

$(PYTHON)/installed: $(PYTHON_NEEDS)
	@tests/install.sh python3 python3-venv
	python3 -m venv --clear $(PYTHON)
	$(PYTHON)/bin/python -m pip install --quiet --disable-pip-version-check --requirement $(PYTHON_NEEDS)
	touch $@
