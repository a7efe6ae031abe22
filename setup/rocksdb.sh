#!/bin/sh
# rocksdb.sh SOURCE [FOLDER]: builds RocksDB's db_bench without assertions, and with io_uring.
#
# Debian's db_bench (rocksdb-tools) has assertions on and no io_uring. Studies run the one in FOLDER, by default
# .setup/rocksdb of this checkout, where there is one; else IOASSAY_DB_BENCH or the installed one. SOURCE is RocksDB of
# 7.0 or newer: a folder, which is not changed, or an archive that tar reads. `apt-get source rocksdb` unpacks that of
# the installed package where deb-src is among apt's sources. The build takes 20 to 60 minutes on two processors and
# 1 GB of disk for that time, and installs the Debian packages that are missing.
set -eu

minimum=7
build_packages='
make                                make            a build with make
g++                                 g++             RocksDB
cmake                               cmake           its configuration
/usr/include/gflags/gflags.h        libgflags-dev   the flags of db_bench
/usr/include/snappy.h               libsnappy-dev   compression
/usr/include/lz4.h                  liblz4-dev      the same
/usr/include/zstd.h                 libzstd-dev     the same
/usr/include/zlib.h                 zlib1g-dev      the same
/usr/include/bzlib.h                libbz2-dev      the same
/usr/include/liburing.h             liburing-dev    reads by io_uring
'

root=$(CDPATH='' cd -P -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd -P)
# shellcheck source=setup/build_from_source.sh
. "$root/setup/build_from_source.sh"

main() {
    begin_build rocksdb "RocksDB $minimum.0 or newer" "$@"
    check_source
    install_missing "$build_packages"
    # As Debian builds it and as RocksDB's own Makefile does, except for the assertions: -O2, for any processor.
    step "configuring RocksDB $version" cmake -S "$build/source" -B "$build/made" -DCMAKE_BUILD_TYPE=Release \
        -DCMAKE_CXX_FLAGS_RELEASE='-O2 -DNDEBUG' -DPORTABLE=ON -DFAIL_ON_WARNINGS=OFF -DROCKSDB_BUILD_SHARED=OFF \
        -DWITH_LIBURING=ON -DWITH_SNAPPY=ON -DWITH_LZ4=ON -DWITH_ZSTD=ON -DWITH_ZLIB=ON -DWITH_BZ2=ON \
        -DWITH_TESTS=OFF -DWITH_TOOLS=OFF -DWITH_CORE_TOOLS=OFF -DWITH_BENCHMARK_TOOLS=ON
    step "building db_bench (20 to 60 minutes)" cmake --build "$build/made" --target db_bench --parallel "$(nproc)"
    install -s -m 755 "$build/made/db_bench" "$folder/db_bench"
    say "built db_bench $version without assertions: $folder/db_bench"
}

check_source() {
    header=$build/source/include/rocksdb/version.h
    version=$(sed -n 's/^#define ROCKSDB_M[AI][JN]OR \([0-9]*\).*/\1/p' "$header" 2>/dev/null | paste -s -d . -)
    [ "${version%%.*}" -ge "$minimum" ] 2>/dev/null ||
        fail "$source is RocksDB ${version:-of no version that can be read}; expected $minimum.0 or newer"
    [ -f "$build/source/tools/db_bench_tool.cc" ] || fail "$source has no tools/db_bench_tool.cc; expected all of RocksDB"
}

main "$@"
