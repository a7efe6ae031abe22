# shellcheck shell=sh disable=SC2154
# A Rust toolchain new enough for Cargo.toml's rust-version: the one that is there, or Debian's.

# find_rust GOAL   puts a good cargo in front of PATH and writes its folder to .setup/cargo-bin, for ./check
find_rust() {
    rust_wanted=$(sed -n 's/^rust-version = "\(.*\)"/\1/p' Cargo.toml)
    look_for_rust || { install_rust && look_for_rust; } ||
        fail "no Rust of version $rust_wanted or newer found on PATH or in ${HOME:-~}/.cargo/bin, and no package" \
            "of it: install it with rustup or with your distribution's packages, and start again"
    printf '%s\n' "$cargo_bin" >"$state/cargo-bin"
    PATH=$cargo_bin:$PATH
    [ "$1" != check ] || find_rust_linters
}

# look_for_rust   sets cargo_bin to the first folder with a cargo and a rustc that run and are new enough
look_for_rust() {
    for cargo_bin in "$(folder_of cargo)" "${CARGO_HOME:-${HOME:-/nonexistent}/.cargo}/bin" /usr/bin /usr/local/bin; do
        "$cargo_bin/cargo" --version >/dev/null 2>&1 || continue # rustup's cargo fails where it has no toolchain
        rust_seen=$("$cargo_bin/rustc" --version 2>/dev/null) || continue
        rust_seen=${rust_seen#rustc }
        version_is_at_least "$rust_wanted" "${rust_seen%%[ -]*}" && return 0
    done
    return 1
}

folder_of() {
    where=$(command -v "$1") && printf '%s\n' "${where%/*}"
}

# Debian 12 keeps a current compiler, made for its browsers, beside the one it was released with.
install_rust() {
    command -v apt-get >/dev/null || return 1
    rust_packages=$(rust_names) || { become_root && quietly apt_update && rust_packages=$(rust_names); } || return 1
    apt_install_or_fail " $rust_packages"
}

# rust_names   the first pair of packages that is new enough, by the lists of packages at hand
rust_names() {
    for names in 'rustc-web cargo-web' 'rustc cargo'; do
        rust_offered=$(LC_ALL=C apt-cache policy "${names%% *}" | sed -n 's/^ *Candidate: //p')
        case $rust_offered in
        '' | '(none)') continue ;;
        esac
        version_is_at_least "$rust_wanted" "$rust_offered" && printf '%s\n' "$names" && return 0
    done
    return 1
}

# The formatter and the linter must come from where the compiler comes from.
find_rust_linters() {
    cargo fmt --version >/dev/null 2>&1 && cargo clippy --version >/dev/null 2>&1 && return
    case $(dpkg-query --search "$(command -v rustc)" 2>/dev/null) in
    rustc-web:*) apt_install_if_possible ' rustfmt-web rust-web-clippy' ;;
    rustc:*) apt_install_if_possible ' rustfmt rust-clippy' ;;
    *) say "this Rust has no cargo fmt or no cargo clippy; their checks will be skipped" ;;
    esac
}

# Rust as old as Cargo.toml's rust-version allows, for a release, whatever Rust builds: Debian's packages of that version,
# unpacked into .setup/minimum-rust and never installed. Fails where it cannot be had.
fetch_minimum_rust() {
    ! minimum_cargo --version >/dev/null 2>&1 || return 0
    case $rust_seen in
    "$rust_wanted".*) link_minimum_rust && return ;;
    esac
    command -v apt-get >/dev/null || return
    say "fetching Rust $rust_wanted, the stated minimum, once"
    unpack_minimum_rust && return
    can_install && quietly apt_update && unpack_minimum_rust
}

# minimum_cargo ARGUMENT…   its cargo, with its compiler, whose libraries are not where the system looks
minimum_cargo() {
    minimum=$root/.setup/minimum-rust
    minimum_libraries=$(printf '%s:' "$minimum"/usr/lib/*-linux-gnu "$minimum"/lib/*-linux-gnu)
    env LD_LIBRARY_PATH="${minimum_libraries%:}" RUSTC="$minimum/usr/bin/rustc" CARGO="$minimum/usr/bin/cargo" \
        "$minimum/usr/bin/cargo" "$@"
}

# Where the Rust that builds is of that version.
link_minimum_rust() {
    rm -rf "$state/minimum-rust" && mkdir -p "$state/minimum-rust/usr/bin"
    ln -s "$cargo_bin/cargo" "$cargo_bin/rustc" "$state/minimum-rust/usr/bin/"
}

unpack_minimum_rust() {
    unpacking=$state/minimum-rust.new
    rm -rf "$unpacking" "$state/minimum-rust" && mkdir -p "$unpacking/archives/partial"
    minimum_packages=$(versions_of_minimum rustc-web cargo-web libstd-rust-web-dev) ||
        minimum_packages=$(versions_of_minimum rustc cargo libstd-rust-dev) || return 1
    # apt adds what they need and this system lacks. Nothing is installed, so it needs neither root nor its lock.
    # shellcheck disable=SC2086 # a list of words
    quietly apt-get -q -y --download-only --no-install-recommends --allow-downgrades -o Debug::NoLocking=1 \
        -o Dir::Cache::archives="$unpacking/archives" install $minimum_packages || return 1
    for archive in "$unpacking"/archives/*.deb; do
        quietly dpkg-deb --extract "$archive" "$unpacking" || return 1
    done
    rm -rf "$unpacking/archives" && mv "$unpacking" "$state/minimum-rust"
    quietly minimum_cargo --version
}

# versions_of_minimum PACKAGE…   each as PACKAGE=VERSION, as apt wants it; false where one is not offered
versions_of_minimum() {
    for package in "$@"; do
        LC_ALL=C apt-cache madison "$package" | awk -v wanted="$rust_wanted." \
            'index($3, wanted) == 1 { print $1 "=" $3; offered = 1; exit } END { exit !offered }' || return 1
    done
}
