#!/bin/sh
# wheel.sh [--quick] [FOLDER [SOURCE]]: builds the source distribution, and the wheel from that, into FOLDER
# (target/wheels), of this checkout or of the one at SOURCE. --quick is for tests: the wheel is that of this machine only,
# of the module that the set-up compiled, and nothing is built where both files are newer than what they are made of.
#
# The wheel is of this machine's processor and runs on Linux with Python 3.11 or newer and a C library from 2.28 on, on
# which the wheels of its dependencies insist as well: zig links against that one, whatever this system has. It needs
# what ./check sets up, and clang for the BPF programs. Both files are the same, byte for byte, whatever folder they are
# built in. Their times are those of the last commit, or SOURCE_DATE_EPOCH.
set -eu

root=$(CDPATH='' cd -P -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd -P)
state=$root/.setup log=$root/.setup/wheel.log
# shellcheck source=setup/say.sh
. "$root/setup/say.sh"
# shellcheck source=setup/ready.sh
. "$root/setup/ready.sh"

main() {
    quick=
    [ "${1:-}" != --quick ] || { quick=yes && shift; }
    [ $# -le 2 ] || fail 'usage: setup/wheel.sh [--quick] [FOLDER [SOURCE]]'
    mkdir -p "${1:-$root/target/wheels}"
    folder=$(CDPATH='' cd -P -- "${1:-$root/target/wheels}" && pwd -P)
    source=$(CDPATH='' cd -P -- "${2:-$root}" && pwd -P)
    cd "$source"
    ! { [ "$quick" ] && is_current; } || return 0
    ready "$root" check || sh "$root/setup/setup.sh" "$root" check
    command -v "${CLANG:-clang}" >/dev/null || fail 'no clang, which compiles the BPF programs: apt-get install clang'
    : >"$log"
    IFS= read -r cargo_bin <"$state/cargo-bin"
    export PATH="$cargo_bin:$root/.venv/bin:$PATH"
    export SOURCE_DATE_EPOCH="${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}"
    rm -f "$folder"/ioassay-*.whl "$folder"/ioassay-*.tar.gz
    take_documents
    step 'fetching crates' cargo fetch --locked
    step 'building the source distribution' maturin sdist --out "$folder"
    python setup/bill_of_materials.py core >"$state/ioassay.cdx.json"
    if [ "$quick" ]; then
        unset SOURCE_DATE_EPOCH # cargo would compile C sources anew for it
        unset PYO3_PYTHON && export VIRTUAL_ENV="$root/.venv" # as setup/python.sh: what that compiled is used again
        build_wheel --compatibility linux
    else
        unpack_distribution
        export WITNESS_REQUIRED=1
        leave_out_paths
        build_wheel --strip --zig --compatibility manylinux_2_28
    fi
    for file in "$folder"/ioassay-*; do
        printf '%s\n' "$file"
    done
}

build_wheel() {
    step 'building the wheel (some minutes)' maturin build --release --locked --interpreter "$root/.venv/bin/python" \
        --sbom-include "$state/ioassay.cdx.json" --out "$folder" "$@"
}

is_current() {
    for file in "$folder"/ioassay-*.whl "$folder"/ioassay-*.tar.gz; do
        [ -e "$file" ] || return
        [ -z "$(find python crates docs setup ./*.toml ./*.txt ./*.md Cargo.lock -path '*/__pycache__*' -prune -o \
            -type f ! -name '*.so*' -newer "$file" -print -quit)" ] || return
    done
}

# Whoever builds from the source distribution has what it has, so the wheel is made of it. Its files get new times: cargo
# knows by these what has changed.
unpack_distribution() {
    unpacked=$source/target/source-distribution
    rm -rf "$unpacked" && mkdir -p "$unpacked"
    tar --extract --touch --strip-components=1 --directory "$unpacked" --file "$folder"/ioassay-*.tar.gz
    export CARGO_TARGET_DIR="$source/target"
    cd "$unpacked"
}

# The documents are part of the package, for `ioassay help TOPIC`. Those of pictures (python/ioassay/cli/help.py) are
# not. They lie next to the package's modules while it is built, and git does not ignore them: maturin would as well.
take_documents() {
    documents=$source/python/ioassay/docs
    trap 'rm -rf "$documents"' EXIT
    trap 'exit 130' INT TERM HUP
    rm -rf "$documents"
    mkdir "$documents"
    for document in docs/*.md docs/*/*.md; do
        case ${document##*/} in
        gallery.md | pictures.md) ;;
        *) cp "$document" "$documents" ;;
        esac
    done
}

# Names of source files are in the messages of panics. Without this machine's folders: only then are two builds the same,
# and nobody learns who built it.
leave_out_paths() {
    separator=$(printf '\037') # paths may have spaces
    flags=--remap-path-prefix=$unpacked=ioassay
    for registry in "${CARGO_HOME:-$HOME/.cargo}"/registry/src/*; do
        flags=$flags$separator--remap-path-prefix=$registry=crates
    done
    export CARGO_ENCODED_RUSTFLAGS="$flags"
}

main "$@"
