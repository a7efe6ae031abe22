#!/bin/sh
# spdk.sh SOURCE [FOLDER]: builds the tools of SPDK with which tests/virtual_drive/test_spdk.py tests the served drive.
#
# Nothing else needs them, and no other set-up builds them. SOURCE is SPDK of the version below with its submodules
# dpdk, isa-l and isa-l-crypto: a folder, which is not changed, or an archive that tar reads. The tools end up in
# FOLDER, by default .setup/spdk of this checkout. It takes about 2 GB of disk for the time of the build, and installs
# the Debian packages that are missing.
set -eu

version=24.01
tools='app/spdk_nvme_perf app/spdk_nvme_identify examples/nvme/abort examples/nvme/reconnect examples/bdev/bdevperf'
build_packages='
make                                make                a build with make
g++                                 g++                 DPDK and SPDK
meson                               meson               the build of DPDK
ninja                               ninja-build         the same
nasm                                nasm                ISA-L
autoreconf                          autoconf            its configuration
aclocal                             automake            the same
libtoolize                          libtool             the same
/usr/include/numa.h                 libnuma-dev         memory of DPDK
/usr/include/libaio.h               libaio-dev          block devices of SPDK
/usr/include/openssl/ssl.h          libssl-dev          the same
/usr/include/uuid/uuid.h            uuid-dev            the same
/usr/lib/python3/dist-packages/elftools python3-pyelftools drivers of DPDK
'

root=$(CDPATH='' cd -P -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd -P)
state=$root/.setup
log=$state/spdk.log

# shellcheck source=setup/say.sh
. "$root/setup/say.sh"
# shellcheck source=setup/packages.sh
. "$root/setup/packages.sh"

main() {
    [ $# -eq 1 ] || [ $# -eq 2 ] || fail "usage: setup/spdk.sh SOURCE [FOLDER]"
    source=$1
    mkdir -p "$state" "${2:-$state/spdk}"
    folder=$(CDPATH='' cd -P -- "${2:-$state/spdk}" && pwd -P)
    : >"$log"
    build=$(mktemp -d "$folder/build.XXXXXX")
    trap 'rm -rf "$build"' EXIT
    trap 'exit 1' HUP INT TERM
    copy_source
    check_source
    missing=$(missing_packages "$build_packages")
    [ -z "$missing" ] || apt_install_or_fail "$missing"
    cd "$build"
    step "configuring SPDK $version" ./configure --disable-tests --disable-unit-tests --without-vhost --without-virtio \
        --without-fuse --without-nvme-cuse
    step "building DPDK (some minutes)" make_parts include/spdk/config.h dpdkbuild
    step "building SPDK (some minutes)" make_parts isalbuild isalcryptobuild lib module
    # shellcheck disable=SC2086 # a list of words
    step "building its tools" make_parts $tools
    for tool in $tools; do
        install_tool "${tool##*/}"
    done
    printf '%s\n' "$version" >"$folder/version"
    say "built SPDK $version: $folder"
}

copy_source() {
    if [ -d "$source" ]; then
        step "copying $source" cp -a "$source/." "$build"
    elif [ -f "$source" ]; then
        step "unpacking $source" tar -xf "$source" -C "$build"
        # Archives often have one folder that holds everything.
        [ -f "$build/configure" ] || step "moving its content" move_up
    else
        fail "$source is no folder and no archive; wanted the source of SPDK $version"
    fi
}

move_up() {
    set -- "$build"/*
    [ $# -eq 1 ] && [ -d "$1" ] && cp -a "$1/." "$build"
}

check_source() {
    seen=$(sed -n 's/^## v\([0-9.]*\).*/\1/p' "$build/CHANGELOG.md" 2>/dev/null | head -n 1)
    [ "$seen" = "$version" ] || fail "$source is SPDK ${seen:-of no version that can be read}; wanted $version"
    for part in dpdk/meson.build isa-l/autogen.sh isa-l-crypto/autogen.sh; do
        [ -e "$build/$part" ] || fail "$source has no $part; wanted SPDK $version with its submodules" \
            "(git submodule update --init dpdk isa-l isa-l-crypto)"
    done
}

# make_parts PART…   one after the other: a file of the source, or a folder that has a Makefile
make_parts() {
    for part; do
        if [ -d "$part" ]; then make -j "$(nproc)" -C "$part" all; else make "$part"; fi || return 1
    done
}

install_tool() {
    for built in "$build/build/bin/$1" "$build/build/examples/$1"; do
        [ ! -x "$built" ] || { install -m 755 "$built" "$folder/$1" && return; }
    done
    fail "SPDK's build made no $1 (see $log)"
}

main "$@"
