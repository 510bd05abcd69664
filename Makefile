# `make try` and `make test` install missing tools, with a message.
.DEFAULT_GOAL := help
.PHONY: help try test test-all check build bench bench-hour fuzz book install pages packages uninstall guests clean
PREFIX ?= /usr/local
SHARE = $(DESTDIR)$(PREFIX)/share
BOOK = $(SHARE)/doc/cpushield
# With DESTDIR (packaging) there is no sudo and no package manager: the build tools must be installed.
SUDO := $(if $(DESTDIR),,$(shell [ "$$(id -u)" = 0 ] || echo sudo))
# With BINARY nothing is compiled.
NEED := $(if $(DESTDIR)$(BINARY),,scripts/need rust)

help:
	@echo 'make try      build, shield a CPU for a few seconds, verify it, restore everything'
	@echo 'make check    run format, lints and tests; no guests'
	@echo 'make test     run make check, and test the main claims in guests with real kernels'
	@echo 'make test-all run everything, including the long and slow guests (several hours)'
	@echo 'make bench    compare cpushield with other tools, in guests (about 25 minutes)'
	@echo 'make bench-hour watch a shielded CPU for an hour under each of two loads, in guests (two hours)'
	@echo 'make guests   build the guests (kernels and a root from Debian, cached)'
	@echo 'make book     make the book of docs/ in target/book (needs mdbook)'
	@echo 'make fuzz     run every fuzz target for FUZZ_SECONDS seconds (default: 60)'
	@echo 'make build    build the static binary'
	@echo 'make install  install the binary, man pages, completions, book and examples below PREFIX ($(PREFIX)); packagers set DESTDIR'
	@echo 'make packages make a .deb, an .rpm and a tarball in target/packages'
	@echo 'make uninstall  restore everything that cpushield changed, including boot files, and remove it'

try:
	@scripts/need rust
	@binary=$$(scripts/static try) && echo "+ $(SUDO) $$binary try" && $(SUDO) "$$binary" try

build:
	@scripts/need rust
	@scripts/static

test:
	@scripts/need rust tests
	@scripts/test test

test-all:
	@scripts/need rust tests
	@scripts/test all

check:
	@scripts/need rust tests
	@scripts/test check

guests:
	@vm/build

bench:
	@scripts/need rust
	@vm/build
	@CPUSHIELD_BINARY=$$(scripts/static) && export CPUSHIELD_BINARY && vm/bench/bench

bench-hour:
	@scripts/need rust
	@vm/build
	@CPUSHIELD_BINARY=$$(scripts/static) && export CPUSHIELD_BINARY && vm/bench/hour

book:
	@command -v mdbook >/dev/null || { echo "mdbook is missing: cargo install mdbook" >&2; exit 1; }
	@mdbook build

fuzz:
	@scripts/need rust
	@scripts/fuzz

install:
	@$(NEED)
	@set -e; $(MAKE_PAGES); \
	$(SUDO) install -D -m 755 "$$binary" "$(DESTDIR)$(PREFIX)/bin/cpushield"; \
	$(PAGES)

pages:
	@$(NEED)
	@set -e; $(MAKE_PAGES); $(PAGES)

packages:
	@scripts/need rust packages
	@scripts/packages

# The binary prints the pages. It does not know the day of the last commit.
MAKE_PAGES = binary=$$(realpath "$${BINARY:-$$(scripts/static)}"); made=$$(mktemp -d); trap 'rm -rf "$$made"' EXIT; \
	"$$binary" __pages "$$made" "$(PREFIX)/bin/cpushield" "$$(git log -1 --format=%cs 2>/dev/null)"; \
	for shell in bash zsh fish; do "$$binary" completions $$shell >"$$made/$$shell"; done

PAGES = $(SUDO) install -D -m 644 -t "$(SHARE)/man/man1" "$$made"/*.1; \
	$(SUDO) install -D -m 644 -t "$(SHARE)/man/man5" "$$made"/*.5; \
	$(SUDO) install -D -m 644 "$$made/bash" "$(SHARE)/bash-completion/completions/cpushield"; \
	$(SUDO) install -D -m 644 "$$made/zsh" "$(SHARE)/zsh/site-functions/_cpushield"; \
	$(SUDO) install -D -m 644 "$$made/fish" "$(SHARE)/fish/vendor_completions.d/cpushield.fish"; \
	$(SUDO) install -D -m 644 -t "$(BOOK)/examples" "$$made"/*.service "$$made"/*.openrc "$$made"/*.sysv \
	    packaging/policy.toml docs/experiment.toml; \
	$(SUDO) install -D -m 644 -t "$(BOOK)" docs/*.md docs/*.schema.json docs/experiment.toml; \
	$(SUDO) install -D -m 644 -t "$(BOOK)/example" docs/example/report.html; \
	for part in guides explanation measurements; do \
	    $(SUDO) install -D -m 644 -t "$(BOOK)/$$part" docs/$$part/*.md; \
	done

# Archived journals are removed; results of experiments stay, and their directory is printed. Only root can look into
# the state directory, so it looks for the experiment and expands the patterns.
uninstall:
	@set -e; binary="$(DESTDIR)$(PREFIX)/bin/cpushield"; \
	[ -n "$(DESTDIR)" ] || { state=/var/lib/cpushield; \
	    ! $(SUDO) test -e $$state/experiment/journal.json || $(SUDO) "$$binary" experiment --stop; \
	    $(SUDO) "$$binary" undo --all; $(SUDO) "$$binary" disable --now; $(SUDO) "$$binary" boot undo; \
	    $(SUDO) sh -c "rm -f $$state/lock $$state/*.lock $$state/boot-trial.json $$state/programs.json $$state/*journal-*.json*"; \
	    [ ! -d $$state ] || $(SUDO) rmdir $$state 2>/dev/null || echo "left: $$state"; }; \
	$(SUDO) rm -f "$$binary" "$(SHARE)"/man/man1/cpushield.1 "$(SHARE)"/man/man1/cpushield-*.1 "$(SHARE)/man/man5/cpushield-policy.5" \
	    "$(SHARE)/bash-completion/completions/cpushield" "$(SHARE)/zsh/site-functions/_cpushield" \
	    "$(SHARE)/fish/vendor_completions.d/cpushield.fish"; \
	$(SUDO) rm -rf "$(BOOK)"

clean:
	cargo clean
