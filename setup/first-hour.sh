#!/bin/sh
# first-hour.sh checkout|wheel|deb [PACKAGE]: a newcomer's first hour, each step timed.
#
# Installs ioassay as its documentation says, measures the disk, runs a study of the newcomer's own, works in a notebook
# and compares two runs. It belongs into a bare root, since it installs packages and creates the user `newcomer`, who
# may use sudo:
#
#     setup/debian-root.sh trixie /var/tmp/debian-13 setup/first-hour.sh wheel /root/ioassay-0.1.0-….whl
#
# PACKAGE is a path within the root. Exit status 0: each step ended with 0, and no step was left out.
set -eu

checkout=$(CDPATH='' cd -P -- "$(dirname -- "$(readlink -f -- "$0")")/.." && pwd -P)
home=/home/newcomer
hour="$home/my first hour"

main() {
    kind=${1:-}
    package=${2:-}
    case $kind in
    checkout) ;;
    wheel | deb) [ -f "$package" ] || fail "no such file: '$package'" ;;
    *) fail 'usage: first-hour.sh checkout|wheel|deb [PACKAGE]' ;;
    esac
    [ "$(id -u)" -eq 0 ] || fail 'creating a user needs root'
    prepare
    # shellcheck source=/dev/null
    system=$(. /etc/os-release && echo "$PRETTY_NAME")
    times=
    begin=$(date +%s)
    timed install "install_$kind"
    timed doctor as_newcomer 'ioassay doctor'
    timed quick as_newcomer 'ioassay quick'
    timed study as_newcomer 'ioassay plan depth.toml && ioassay run depth.toml --output before'
    timed notebook "notebook_$kind"
    timed compare as_newcomer 'ioassay run depth.toml --output after && ioassay compare before after --margin 50%'
    printf '\n%s, %s: the first hour took %s s\n%s' "$kind" "$system" \
        "$(($(date +%s) - begin))" "$times"
}

fail() {
    echo "first-hour: $*" >&2
    exit 2
}

# A machine as a newcomer has it: a user who may use sudo, and lists of packages.
prepare() {
    export DEBIAN_FRONTEND=noninteractive
    apt-get update -qq
    apt-get install -qq -y sudo ca-certificates git >/dev/null
    id newcomer >/dev/null 2>&1 || useradd --create-home --shell /bin/bash newcomer
    echo 'newcomer ALL=(ALL) NOPASSWD: ALL' >/etc/sudoers.d/newcomer
    rm -rf "$hour"
    mkdir -p "$hour"
    [ -z "$package" ] || cp -- "$package" "$home/"
    cp "$checkout/examples/notebooks/block-size.ipynb" "$hour/"
    cat >"$hour/depth.toml" <<'STUDY'
title = "Does the queue depth matter here?"
driver = "fio"
target = { kind = "file", path = "data", size = "64MiB" }
params = { rw = "randread", bs = "4KiB", ioengine = "libaio", direct = 1, runtime = "1s", time_based = true }
factors = { iodepth = [1, 4, 16] }
repetitions = 3
STUDY
    chown -R newcomer: "$home"
}

# timed TITLE COMMAND…   ends the hour where the command fails
timed() {
    title=$1
    shift
    printf '\n== %s\n' "$title"
    step_begin=$(date +%s)
    "$@" || fail "$title failed with exit status $?"
    times="$times$(printf '%-10s %4d s' "$title" "$(($(date +%s) - step_begin))")
"
}

# as_newcomer SCRIPT   with the user's own environment, from the folder of the hour
as_newcomer() {
    # shellcheck disable=SC2016 # for the shell within
    runuser -u newcomer -- env HOME="$home" USER=newcomer LOGNAME=newcomer \
        PATH="$home/bin:$home/.local/bin:/usr/local/bin:/usr/bin:/bin" \
        sh -euc 'cd "$1" && eval "$2"' sh "$hour" "$1"
}

install_checkout() {
    git clone --quiet --no-hardlinks "$checkout" "$home/ioassay"
    chown -R newcomer: "$home/ioassay"
    # What a user would type from elsewhere as ~/ioassay/ioassay.
    as_newcomer 'mkdir -p ~/bin && ln -sf ~/ioassay/ioassay ~/bin/ioassay && ioassay --version'
}

install_wheel() {
    as_newcomer 'sudo apt-get install -qq -y fio pipx >/dev/null && pipx install ~/*.whl && ioassay --version'
}

install_deb() {
    as_newcomer 'sudo DEBIAN_FRONTEND=noninteractive apt-get install -qq -y ~/*.deb >/dev/null && ioassay --version'
}

notebook_checkout() {
    as_newcomer 'cd ~/ioassay && .venv/bin/pip install -q nbclient ipykernel && cd - &&
        ~/ioassay/.venv/bin/jupyter execute block-size.ipynb'
}

notebook_wheel() {
    # shellcheck disable=SC2016 # for the shell within
    as_newcomer 'pipx inject ioassay nbclient ipykernel &&
        "$(pipx environment --value PIPX_LOCAL_VENVS)/ioassay/bin/jupyter" execute block-size.ipynb'
}

notebook_deb() {
    as_newcomer 'sudo DEBIAN_FRONTEND=noninteractive apt-get install -qq -y \
        jupyter-core python3-nbclient python3-ipykernel >/dev/null &&
        jupyter execute --kernel_name=ioassay block-size.ipynb'
}

main "$@"
