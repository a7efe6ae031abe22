#!/bin/sh
# debian-root.sh SUITE FOLDER [COMMAND…]: a new user's first hour, in a bare Debian (`bookworm`, `trixie`) at FOLDER.
#
# Makes the root with debootstrap unless it is there, clones the last commit of this checkout into it, and runs the
# two commands of README.md: first as root from "/root/io assay", which installs the packages, then from
# "/home/visitor/my projects/ioassay" as a user who cannot become root. A COMMAND runs instead of these, as root from
# the checkout that is there, or from a new one. The exit status is 0 where all of them ended with 0.
#
# Needs root, git and debootstrap. The root is a root of files only: kernel, devices and network are this machine's, and
# so are the sources of its packages. What is mounted is in a mount namespace and goes with it, processes that stay
# behind are listed and make the script fail. FOLDER remains: remove it with `rm -rf --one-file-system`.
set -eu

checkout=$(CDPATH='' cd -P -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd -P)
root_home='/root/io assay'
user_home='/home/visitor/my projects/ioassay'

say() {
    printf 'debian-root: %s\n' "$*"
}

main() {
    [ $# -ge 2 ] || { say "usage: debian-root.sh SUITE FOLDER [COMMAND…]" >&2 && exit 2; }
    [ "$(id -u)" -eq 0 ] || { say "making a root needs root" >&2 && exit 2; }
    suite=$1 folder=$2
    shift 2
    [ -x "$folder/usr/bin/apt-get" ] || debootstrap --variant=minbase "$suite" "$folder"
    folder=$(readlink -f -- "$folder")
    copy_network_configuration
    failed=
    if [ $# -gt 0 ]; then
        [ -e "$folder$root_home" ] || clone root "$root_home"
        attempt root "$root_home" "$@"
    else
        clone root "$root_home"
        attempt root "$root_home" ./ioassay quick
        attempt root "$root_home" ./check
        clone visitor "$user_home"
        attempt visitor "$user_home" ./ioassay quick
        attempt visitor "$user_home" ./check
    fi
    list_processes
    [ -z "$failed" ] || { say "failed:$failed" && exit 1; }
    say "all is well in $suite"
}

# What this machine needs to reach packages, the new one needs as well.
copy_network_configuration() {
    cp /etc/resolv.conf /etc/hosts "$folder/etc/"
    cp -r /etc/apt/apt.conf.d /etc/apt/auth.conf.d "$folder/etc/apt/"
    # shellcheck source=/dev/null
    own_suite=$(. /etc/os-release && echo "${VERSION_CODENAME:-}")
    for sources in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
        grep -qsw "$own_suite" "$sources" || continue
        rm -f "$folder/etc/apt/sources.list"
        sed "s/\\b$own_suite\\b/$suite/g" "$sources" >"$folder$sources"
    done
    # Certificates of this machine's own: the package ca-certificates takes them up when it is installed.
    mkdir -p "$folder/usr/local/share/ca-certificates"
    for file in /usr/local/share/ca-certificates/*.crt; do
        [ ! -e "$file" ] || cp "$file" "$folder$file"
    done
    [ ! -e /etc/pip.conf ] || cp /etc/pip.conf "$folder/etc/"
    [ ! -e "${CARGO_HOME:-$HOME/.cargo}/config.toml" ] || {
        mkdir -p "$folder/root/.cargo" "$folder/etc/skel/.cargo"
        cp "${CARGO_HOME:-$HOME/.cargo}/config.toml" "$folder/root/.cargo/"
        cp "${CARGO_HOME:-$HOME/.cargo}/config.toml" "$folder/etc/skel/.cargo/"
    }
}

# clone USER PLACE   the last commit, as `git clone` of a published one leaves it
clone() {
    [ "$1" = root ] || chroot "$folder" id "$1" >/dev/null 2>&1 || chroot "$folder" useradd --create-home "$1"
    rm -rf "${folder:?}${2:?}"
    mkdir -p "$(dirname -- "$folder$2")"
    git clone --quiet --no-hardlinks "$checkout" "$folder$2"
    [ "$1" = root ] || chroot "$folder" chown -R "$1:" "/home/$1"
}

# attempt USER PLACE COMMAND…   as that user's login would run it from PLACE, with nothing of this environment
attempt() {
    user=$1 place=$2
    shift 2
    title="$user, $place: $*"
    printf '\n'
    say "== $title"
    begin_s=$(date +%s)
    status=0
    # shellcheck disable=SC2016 # for the shell within
    unshare --mount --propagation private sh -euc '
        suite=$1 folder=$2 user=$3 place=$4
        shift 4
        mount --bind "$folder" "$folder" # so that the root is a mount point, as it is everywhere else
        cd "$folder"
        mount -t proc proc proc
        mount --rbind /sys sys
        mount --rbind /dev dev
        [ "$suite" = bookworm ] || mount -t tmpfs -o mode=1777 tmpfs tmp # the default since Debian 13
        mount -t tmpfs -o mode=0755 tmpfs run
        home=/home/$user path=/usr/local/bin:/usr/bin:/bin
        [ "$user" != root ] || home=/root path=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
        exec chroot --userspec="$user:$user" . /usr/bin/env -i \
            HOME="$home" USER="$user" LOGNAME="$user" SHELL=/bin/sh TERM=dumb PATH="$path" \
            ${http_proxy:+http_proxy="$http_proxy"} ${https_proxy:+https_proxy="$https_proxy"} \
            ${no_proxy:+no_proxy="$no_proxy"} ${PIP_INDEX_URL:+PIP_INDEX_URL="$PIP_INDEX_URL"} \
            ${PIP_DEFAULT_TIMEOUT:+PIP_DEFAULT_TIMEOUT="$PIP_DEFAULT_TIMEOUT"} \
            ${IOASSAY_REQUIRE:+IOASSAY_REQUIRE="$IOASSAY_REQUIRE"} \
            sh -euc "cd \"\$0\" && exec \"\$@\"" "$place" "$@"
    ' sh "$suite" "$folder" "$user" "$place" "$@" </dev/null || status=$?
    say "== exit status $status after $(($(date +%s) - begin_s)) s: $title"
    [ "$status" -eq 0 ] || failed="$failed
    $title (exit status $status)"
}

# Processes of that root, which a command should not have left.
list_processes() {
    for process in /proc/[0-9]*; do
        [ "$(readlink "$process/root" 2>/dev/null)" = "$folder" ] || continue
        left="process ${process#/proc/}: $(tr '\0' ' ' <"$process/cmdline" 2>/dev/null | cut -c 1-100)"
        say "still running: $left"
        failed="$failed
    $left"
    done
}

main "$@"
