# The front door. `make try` and `make test` install what they miss and say so.
.DEFAULT_GOAL := help
.PHONY: help try test check build bench fuzz install uninstall guests clean
PREFIX ?= /usr/local
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)

help:
	@echo 'make try      build, shield a CPU for a few seconds, prove it, put everything back'
	@echo 'make test     everything: format, lints, tests, guests with real kernels'
	@echo 'make check    the same without guests'
	@echo 'make bench    the table against the peers, in guests (about 25 minutes)'
	@echo 'make guests   make the guests (kernels and a root from Debian, cached)'
	@echo 'make fuzz     every fuzz target for FUZZ_SECONDS (60) each'
	@echo 'make build    the static binary'
	@echo 'make install  the static binary into PREFIX/bin (PREFIX=$(PREFIX))'
	@echo 'make uninstall  put back what it changed, boot files too, and remove it'

try:
	@scripts/need rust
	@binary=$$(scripts/static) && echo "+ $(SUDO) $$binary try" && $(SUDO) "$$binary" try

build:
	@scripts/need rust
	@scripts/static

test:
	@scripts/need rust tests
	@scripts/test

check:
	@scripts/need rust tests
	@scripts/test --no-guests

guests:
	@vm/build

bench:
	@scripts/need rust
	@vm/build
	@CPUSHIELD_BINARY=$$(scripts/static) && export CPUSHIELD_BINARY && vm/bench/bench

fuzz:
	@scripts/need rust
	@scripts/fuzz

install:
	@binary=$$(scripts/static) && install -D -m 755 "$$binary" "$(DESTDIR)$(PREFIX)/bin/cpushield"

uninstall:
	@set -e; binary="$(DESTDIR)$(PREFIX)/bin/cpushield"; \
	[ -n "$(DESTDIR)" ] || { state=/var/lib/cpushield; "$$binary" undo; "$$binary" undo --boot; \
	    rm -f $$state/lock $$state/boot-trial.json; \
	    [ ! -d $$state ] || rmdir --ignore-fail-on-non-empty $$state; }; \
	rm -f "$$binary"

clean:
	cargo clean
