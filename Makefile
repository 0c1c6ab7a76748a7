# make demo          the main job, shown from beginning to end on a small store
# make demo DB=FILE  the same on a copy of a database of your own
# make demo-fleet    history in a bucket: a publisher that is lost, two followers, and a machine that takes over
# make test          everything that must hold of the program: format, lints, all tests
# make check         what changes break most often, in minutes: no virtual machines, no browser, no simulator
# make lint          format, lints and words
# make prose         the words alone, of documents, help texts, errors, log lines, pages and alerts: docs/style.md
# make test-loop     the device-mapper tests on this machine's own kernel, as root, on loop devices
# make sim           the guard in 100,000 simulated scenarios; SEED=n runs that one again. Then 200,000 random walks of the engine,
#                    100,000 schedules of an archive, 100,000 scenarios of machines that publish to one bucket, 5,000 histories of rows, also as scripts and changesets, and every parser of bytes from outside
#                    for 20 seconds (FUZZ_SECONDS=n) with what reaches more of its code; what one fails on is kept in a file, and the command that feeds it again is printed.
#                    Last, 500 kills (KILLS=n) of a publisher, of its bucket's server and of a follower; KILLS_FROM=n begins with that seed
# make bench         the figures of docs/benchmarks.md, measured here
# make compare       asat beside cp, SQLite's backup, restic, borg and Litestream, on the same work: writes docs/compare.md
# make bench-lab     the figures of the backends on volumes, and of the guard, in the tests' own kernel
# make build         the release binary, target/release/asat
# make install       binary, units, manual pages and completions, under PREFIX (default /usr/local)
# make deb           the same as a Debian package, in target/
# make static        the program without any library of the system, for other distributions, with its checksum, in target/
# make image         the same as a container image, asat:VERSION
# make sbom          what the program is built from, with licences, as target/dependencies.cdx.json

CARGO ?= cargo
PREFIX ?= /usr/local
# Where systemd finds units: those of an administrator, or of a package.
UNITS ?= /etc/systemd/system
# Where cargo puts what it builds.
TARGET = $(or $(CARGO_TARGET_DIR),target)
RELEASE = $(TARGET)/release/asat
# The benchmarks are not installed.
BENCH = $(TARGET)/release/asat-bench
# The program that is installed. If it is another than the release build, nothing is built.
BINARY ?= $(RELEASE)
BUILT = $(if $(filter $(RELEASE),$(BINARY)),build)
VERSION ?= $(shell sed -n 's/^version = "\(.*\)"$$/\1/p' Cargo.toml | head -n 1)
# What a build needs, as COMMAND:PACKAGE. The C compiler builds the bundled SQLite and zstd.
BUILD_NEEDS = cargo:rust cc:gcc
# What the demo uses besides: a stock SQLite client.
DEMO_NEEDS = $(BUILD_NEEDS) sqlite3:sqlite3 python3:python3
# What the demo of a fleet uses besides: a server that speaks S3, from PyPI.
FLEET_NEEDS = $(DEMO_NEEDS) python3.ensurepip:python3-venv
# The linter of prose, from npm, and what hands it the texts in the sources.
PROSE_NEEDS = node:nodejs npm:npm python3:python3
# A real kernel as a process, with LVM on it, for the tests that need a device-mapper.
LAB_NEEDS = linux.uml:user-mode-linux lvcreate:lvm2 dmsetup:dmsetup dmeventd:dmeventd thin_check:thin-provisioning-tools \
            mkfs.xfs:xfsprogs mkfs.ext4:e2fsprogs mkfs.btrfs:btrfs-progs losetup:mount insmod:kmod ip:iproute2 systemctl:systemd udevadm:udev
# Stock SQLite clients, what asks the API anything, what checks metrics and alert rules, a browser for the pages, private mounts for full
# disks, a machine under systemd, and the lab.
TEST_NEEDS = $(DEMO_NEEDS) python3.ensurepip:python3-venv curl:curl promtool:prometheus chromium:chromium chromedriver:chromium-driver \
             unshare:util-linux taskset:util-linux fincore:util-linux-extra patchelf:patchelf age:age lintian:lintian systemd-nspawn:systemd-container $(LAB_NEEDS)
# What the benchmarks are run beside.
BENCH_NEEDS = $(BUILD_NEEDS) sqldiff:sqlite3-tools sqlite3:sqlite3
# What asat is compared with, besides Litestream, which is measured if Go is here to build it.
COMPARE_NEEDS = $(BUILD_NEEDS) sqlite3:sqlite3 restic:restic borg:borgbackup mkfs.xfs:xfsprogs mkfs.btrfs:btrfs-progs snapper:snapper
LITESTREAM ?= github.com/benbjohnson/litestream/cmd/litestream@v0.5.18
# What packs the program for Debian.
DEB_NEEDS = dpkg-shlibdeps:dpkg-dev strip:binutils python3:python3
# The target of the program that needs no library of the system, and what links it.
STATIC_TARGET = $(shell uname -m)-unknown-linux-musl
STATIC_NEEDS = $(BUILD_NEEDS) rustup:rustup musl-gcc:musl-tools
STATIC = target/asat-$(VERSION)-$(STATIC_TARGET)
# What builds an image: podman, buildah or docker, whichever is there first, or the one that CONTAINERS names.
CONTAINERS ?= $(firstword $(notdir $(shell command -v podman buildah docker)) podman)
# The same on this machine's own device-mapper.
LOOP_NEEDS = $(BUILD_NEEDS) lvcreate:lvm2 dmsetup:dmsetup thin_check:thin-provisioning-tools mkfs.xfs:xfsprogs \
             mkfs.ext4:e2fsprogs losetup:mount
# What feeds parsers by coverage is written in C++.
FUZZ_NEEDS = $(BUILD_NEEDS) c++:g++
# What `sim` runs besides: a server that speaks S3, which Python fetches what builds it for.
SIM_NEEDS = $(FUZZ_NEEDS) python3.ensurepip:python3-venv
# Many tests wait for disks and for other processes, so twice as many run at once as there are processors.
export RUST_TEST_THREADS ?= $(shell expr 2 '*' `nproc`)
# The tests of the program that need more than SQLite clients, or take long: `check` leaves them out.
SLOW = lab_ clients:: concurrent:: crash:: dependencies:: fleet:: full_disk:: hostile_owner:: metrics:: page:: recovery:: schemathesis:: service::
# How long each parser is fed.
FUZZ_SECONDS ?= 20
# How often `sim` kills a publisher, its bucket's server or a follower.
KILLS ?= 500

.PHONY: build test check prose test-loop sim lint demo demo-fleet bench bench-lab compare install deb static image sbom clean
.DEFAULT_GOAL := build

build:
	@tools/need $(BUILD_NEEDS)
	$(CARGO) build --release --locked

# Clippy compiles as well as it looks, so one build has the lints and the tests.
test:
	@tools/need $(TEST_NEEDS)
	$(FORMAT)
	@tools/lab-kernel target/lab-kernel
	RUSTC_WORKSPACE_WRAPPER=clippy-driver CLIPPY_ARGS=-Dwarnings $(CARGO) test --workspace --locked --no-fail-fast

check:
	@tools/need $(DEMO_NEEDS) $(PROSE_NEEDS)
	$(LINT)
	$(PROSE)
	$(CARGO) test --workspace --exclude asat --exclude asat-bench --exclude asat-sim --locked --no-fail-fast -- --skip scripts::
	$(CARGO) test --locked --no-fail-fast -- $(SLOW:%=--skip %)

test-loop:
	@tools/need $(LOOP_NEEDS)
	ASAT_LAB=loop $(CARGO) test --locked --test program lab_devices::

# SEED, SCENARIOS and SIM are those of the program; a scenario that fails is printed as it is run again. So is a schedule of the
# archive: SCHEDULES says how many there are, and SCHEDULES_FROM the seed of the first.
sim:
	@tools/need $(SIM_NEEDS)
	$(CARGO) run --release --locked --package asat-sim --bin sim
	$(if $(SEED)$(SIM),,$(CARGO) test --release --locked --package asat-core --test engine -- --ignored --nocapture 200_000_walks)
	$(if $(SEED)$(SIM),,$(CARGO) test --release --locked --package asat-archive --test explore -- --ignored --nocapture)
	$(if $(SEED)$(SIM),,SCENARIOS=100000 $(CARGO) test --release --locked --package asat-remote --test remote -- random)
	$(if $(SEED)$(SIM),,$(CARGO) test --release --locked --package asat-rows --test rows -- --ignored)
	$(if $(SEED)$(SIM),,CARGO="$(CARGO)" tools/fuzz --all $(FUZZ_SECONDS))
	$(if $(SEED)$(SIM),,KILLS=$(KILLS) $(CARGO) test --release --locked --test program -- fleet::)

FORMAT = $(CARGO) fmt --all --check
PROSE = tools/prose/lint $(TARGET)/tmp/prose
LINT = $(FORMAT) && $(CARGO) clippy --workspace --all-targets --locked -- --deny warnings

lint:
	@tools/need $(TEST_NEEDS) $(PROSE_NEEDS)
	$(LINT)
	$(PROSE)

prose:
	@tools/need $(PROSE_NEEDS)
	$(PROSE)

demo: build
	@tools/need $(DEMO_NEEDS)
	@demo/run

demo-fleet: build
	@tools/need $(FLEET_NEEDS)
	@demo/fleet

# They measure the program that lies beside them, so it is built first, as it is installed.
bench: build
	@tools/need $(BENCH_NEEDS)
	$(CARGO) build --release --locked --package asat-bench
	$(BENCH) valuation
	$(BENCH) large
	$(BENCH) history
	$(BENCH) idle
	$(BENCH) scale
	$(BENCH) listing
	$(BENCH) reading
	$(BENCH) diff
	$(BENCH) publishing
	$(BENCH) track
	$(BENCH) watch
	$(BENCH) remote
	$(BENCH) follow

compare: build
	@tools/need $(COMPARE_NEEDS)
	$(CARGO) build --release --locked --package asat-bench
	if command -v go >/dev/null; then GOBIN=$(abspath $(TARGET))/tmp/compare go install $(LITESTREAM); fi
	$(BENCH) compare --document docs $(if $(filter 0,$(shell id -u)),--also-on xfs --also-on btrfs) $(if $(shell command -v go),--litestream $(abspath $(TARGET))/tmp/compare/litestream)

# Options for all runs go in ASAT_BENCH_OPTIONS, as --back-to-back.
bench-lab: build
	@tools/need $(LAB_NEEDS)
	$(CARGO) test --release --locked --package asat-bench --test lab_bench -- --ignored --nocapture --test-threads=1
	$(CARGO) test --release --locked --test program lab_bench -- --ignored --nocapture --test-threads=1

# The units name the program where it is installed. The configuration is short, so that it stays the same from one version to the
# next: dpkg asks about one that has changed in the package and by hand, and an upgrade that nobody watches would fail.
AT = sed 's|/usr/local/bin/asat|$(PREFIX)/bin/asat|'

install: $(BUILT)
	install -D -m 755 $(BINARY) $(DESTDIR)$(PREFIX)/bin/asat
	mkdir -p $(DESTDIR)$(UNITS) $(DESTDIR)$(PREFIX)/share/doc/asat/systemd
	$(AT) systemd/asat.service > $(DESTDIR)$(UNITS)/asat.service
	$(AT) systemd/asat.socket > $(DESTDIR)$(UNITS)/asat.socket
	$(AT) systemd/lvm.conf > $(DESTDIR)$(PREFIX)/share/doc/asat/systemd/lvm.conf
	$(AT) systemd/fuse.conf > $(DESTDIR)$(PREFIX)/share/doc/asat/systemd/fuse.conf
	install -D -m 644 systemd/asat.sysusers $(DESTDIR)/usr/lib/sysusers.d/asat.conf
	install -D -m 644 systemd/asat.tmpfiles $(DESTDIR)/usr/lib/tmpfiles.d/asat.conf
	[ -e $(DESTDIR)/etc/asat/asat.toml ] || install -D -m 640 packaging/asat.toml $(DESTDIR)/etc/asat/asat.toml
	cd docs && find . -name '*.md' -exec install -D -m 644 {} $(abspath $(DESTDIR)$(PREFIX))/share/doc/asat/docs/{} \;
	install -m 644 README.md $(DESTDIR)$(PREFIX)/share/doc/asat/
	install -D -m 644 config/asat.toml $(DESTDIR)$(PREFIX)/share/doc/asat/examples/asat.toml
	install -m 644 config/alerts.yml config/alerts.test.yml config/grafana.json $(DESTDIR)$(PREFIX)/share/doc/asat/examples/
	mkdir -p $(DESTDIR)$(PREFIX)/share/man/man1
	$(BINARY) man --dir $(DESTDIR)$(PREFIX)/share/man/man1
	cd $(DESTDIR)$(PREFIX)/share && mkdir -p bash-completion/completions zsh/site-functions fish/vendor_completions.d
	$(BINARY) completions bash > $(DESTDIR)$(PREFIX)/share/bash-completion/completions/asat
	$(BINARY) completions zsh > $(DESTDIR)$(PREFIX)/share/zsh/site-functions/_asat
	$(BINARY) completions fish > $(DESTDIR)$(PREFIX)/share/fish/vendor_completions.d/asat.fish

# COMPRESSION is dpkg-deb's, `xz` where it is not set.
deb: $(BUILT)
	@tools/need $(DEB_NEEDS)
	packaging/deb/build $(BINARY) $(VERSION) target

static:
	@tools/need $(STATIC_NEEDS)
	rustup target add $(STATIC_TARGET)
	CC_$(subst -,_,$(STATIC_TARGET))=musl-gcc $(CARGO) build --release --locked --package asat --target $(STATIC_TARGET)
	install -D -m 755 $(TARGET)/$(STATIC_TARGET)/release/asat $(STATIC)
	cd $(dir $(STATIC)) && sha256sum $(notdir $(STATIC)) > $(notdir $(STATIC)).sha256

image: static
	@tools/need $(CONTAINERS):$(CONTAINERS) update-ca-certificates:ca-certificates
	rm -rf target/container && mkdir -p target/container/empty
	cp $(STATIC) target/container/asat
	cp packaging/asat.toml /etc/ssl/certs/ca-certificates.crt target/container/
	$(CONTAINERS) build --tag asat:$(VERSION) --file packaging/container/Containerfile target/container

sbom:
	@tools/need cargo:rust python3:python3
	@mkdir -p target
	tools/sbom > target/dependencies.cdx.json

clean:
	$(CARGO) clean
