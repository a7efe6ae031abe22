#!/bin/sh
# spdk.sh SOURCE [FOLDER]: builds the tools of SPDK with which tests/packs/virtual_drive/test_spdk.py tests the served drive,
# and its target of NVMe over TCP, with which benches/device.py compares it.
#
# Nothing else needs them, and no other set-up builds them. SOURCE is SPDK of the version below with its submodules
# dpdk, isa-l and isa-l-crypto, and libvfio-user if its hosts of vfio-user are wanted: a folder, which is not changed, or
# an archive that tar reads. The tools end up in FOLDER, by default .setup/spdk of this checkout. It takes about 2 GB of
# disk for the time of the build, and installs the Debian packages that are missing.
set -eu

version=24.01
tools='app/spdk_nvme_perf app/spdk_nvme_identify examples/nvme/abort examples/nvme/reconnect examples/bdev/bdevperf app/nvmf_tgt test/nvme/simple_copy'
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
/usr/include/json-c/json.h          libjson-c-dev       libvfio-user
/usr/include/cmocka.h               libcmocka-dev       the same
'

root=$(CDPATH='' cd -P -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd -P)
# shellcheck source=setup/build_from_source.sh
. "$root/setup/build_from_source.sh"

main() {
    begin_build spdk "SPDK $version" "$@"
    check_source
    install_missing "$build_packages"
    cd "$build/source"
    vfio_user='' vfio_user_build=''
    if [ -e libvfio-user/meson.build ]; then
        vfio_user=--with-vfio-user vfio_user_build=vfiouserbuild
    fi
    # shellcheck disable=SC2086 # one option or none
    step "configuring SPDK $version" ./configure --disable-tests --disable-unit-tests --without-vhost --without-virtio \
        --without-fuse --without-nvme-cuse $vfio_user
    step "building DPDK (some minutes)" make_parts build_dir include/spdk/config.h dpdkbuild
    # shellcheck disable=SC2086 # one part or none
    step "building SPDK (some minutes)" make_parts isalbuild isalcryptobuild $vfio_user_build lib module
    # It has no option -g, without which its memory cannot be shared with a drive of vfio-user.
    sed -i 's/opts.shm_id = 0;/& opts.hugepage_single_segments = true;/' test/nvme/simple_copy/simple_copy.c
    # shellcheck disable=SC2086 # a list of words
    step "building its tools" make_parts $tools
    for tool in $tools; do
        install_tool "${tool##*/}"
    done
    printf '%s\n' "$version" >"$folder/version"
    say "built SPDK $version: $folder"
}

check_source() {
    seen=$(sed -n 's/^## v\([0-9.]*\).*/\1/p' "$build/source/CHANGELOG.md" 2>/dev/null | head -n 1)
    [ "$seen" = "$version" ] || fail "$source is SPDK ${seen:-of no version that can be read}; expected $version"
    for part in dpdk/meson.build isa-l/autogen.sh isa-l-crypto/autogen.sh; do
        [ -e "$build/source/$part" ] || fail "$source has no $part; expected SPDK $version with its submodules" \
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
    for built in build/bin/"$1" build/examples/"$1" test/nvme/"$1/$1"; do
        [ ! -x "$built" ] || { install -m 755 "$built" "$folder/$1" && return; }
    done
    fail "SPDK's build made no $1 (see $log)"
}

main "$@"
