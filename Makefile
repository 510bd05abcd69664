# The front door. `make try` and `make test` install what they miss and say so.
.DEFAULT_GOAL := help
.PHONY: help try test check build bench fuzz install pages uninstall guests clean
PREFIX ?= /usr/local
SHARE = $(DESTDIR)$(PREFIX)/share
# A packager (DESTDIR) is no root and has what it takes to build: no sudo, no package manager.
ifneq ($(DESTDIR),)
SUDO :=
NEED :=
else
SUDO := $(shell [ "$$(id -u)" = 0 ] || echo sudo)
NEED := scripts/need rust
endif

help:
	@echo 'make try      build, shield a CPU for a few seconds, prove it, put everything back'
	@echo 'make test     everything: format, lints, tests, guests with real kernels'
	@echo 'make check    the same without guests'
	@echo 'make bench    the table against the peers, in guests (about 25 minutes)'
	@echo 'make guests   make the guests (kernels and a root from Debian, cached)'
	@echo 'make fuzz     every fuzz target for FUZZ_SECONDS (60) each'
	@echo 'make build    the static binary'
	@echo 'make install  the static binary, man pages and completions into PREFIX ($(PREFIX)); DESTDIR=DIR for packages'
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
	@$(NEED)
	@set -e; binary=$$(scripts/static); made=$$(mktemp -d); trap 'rm -rf "$$made"' EXIT; \
	$(SUDO) install -D -m 755 "$$binary" "$(DESTDIR)$(PREFIX)/bin/cpushield"; \
	$(PAGES)

pages:
	@$(NEED)
	@set -e; made=$$(mktemp -d); trap 'rm -rf "$$made"' EXIT; $(PAGES)

# The chore that makes them is built as the binary is, so that most of it is built already.
PAGES = scripts/static xtask man "$$made/man"; scripts/static xtask completions "$$made/completions"; \
	cd "$$made"; \
	$(SUDO) install -D -m 644 -t "$(SHARE)/man/man1" man/*; \
	$(SUDO) install -D -m 644 completions/cpushield.bash "$(SHARE)/bash-completion/completions/cpushield"; \
	$(SUDO) install -D -m 644 completions/_cpushield "$(SHARE)/zsh/site-functions/_cpushield"; \
	$(SUDO) install -D -m 644 completions/cpushield.fish "$(SHARE)/fish/vendor_completions.d/cpushield.fish"

# What was undone is history then; results of experiments stay, and are named.
uninstall:
	@set -e; binary="$(DESTDIR)$(PREFIX)/bin/cpushield"; \
	[ -n "$(DESTDIR)" ] || { state=/var/lib/cpushield; $(SUDO) "$$binary" disable --now; $(SUDO) "$$binary" boot undo; \
	    $(SUDO) rm -f $$state/lock $$state/boot-trial.json $$state/programs.json $$state/*journal-*.json*; \
	    [ ! -d $$state ] || $(SUDO) rmdir $$state 2>/dev/null || echo "left: $$state"; }; \
	$(SUDO) rm -f "$$binary" "$(SHARE)"/man/man1/cpushield.1 "$(SHARE)"/man/man1/cpushield-*.1 \
	    "$(SHARE)/bash-completion/completions/cpushield" "$(SHARE)/zsh/site-functions/_cpushield" \
	    "$(SHARE)/fish/vendor_completions.d/cpushield.fish"

clean:
	cargo clean
