#!/bin/sh
# debian-trial.sh PACKAGE [APT-OPTION…]: installs the Debian package in the root where this runs, uses it as a user
# does, purges it, and looks for what remains.
#
# It belongs into a bare root, as root; PACKAGE is a path within that:
#
#     setup/debian-root.sh trixie /var/tmp/debian-13 setup/debian-trial.sh /root/ioassay_….deb
#
# Exit status 0: each step did what it should, and no file is left of the package or was changed by it.
set -eu

home=/home/trial

main() {
    [ -f "${1:-}" ] || fail "no package '${1:-}': name a file, as in debian-trial.sh /root/ioassay_….deb"
    [ "$(id -u)" -eq 0 ] || fail 'installing a package needs root'
    package=$(readlink -f -- "$1")
    shift
    export DEBIAN_FRONTEND=noninteractive LC_ALL=C.UTF-8
    id trial >/dev/null 2>&1 || useradd --create-home --shell /bin/bash trial
    lists=$(mktemp -d)
    trap 'rm -rf "$lists"' EXIT
    # What the package needs comes first, so that only the package itself is compared.
    dpkg-deb --field "$package" Depends >"$lists/depends"
    tr ',' '\n' <"$lists/depends" | sed 's/ *(.*//; s/ //g' | sort -u |
        xargs apt-get install -qq -y --no-install-recommends "$@" >/dev/null
    list_files >"$lists/before"
    timed 'install' apt-get install -qq -y --no-install-recommends "$@" "$package"
    begin_use
    timed 'version' as_user 'ioassay --version'
    timed 'doctor' as_user 'ioassay doctor >doctor.txt || [ $? -eq 1 ]; head -n 3 doctor.txt'
    timed 'quick' as_user 'ioassay run quick --output first --set target.size=16MiB --set runtime=250ms --repetitions 2'
    as_user 'test -s first/report/index.html' || fail 'quick left no report'
    check_isolation
    check_documents
    timed 'purge' apt-get purge -qq -y ioassay
    list_files >"$lists/after"
    diff "$lists/before" "$lists/after" || fail 'the purge left or changed the files above'
    echo 'debian-trial: all is well'
}

fail() {
    echo "debian-trial: $*" >&2
    exit 1
}

# timed TITLE COMMAND…
timed() {
    title=$1
    shift
    begin_ms=$(now_ms)
    "$@" || fail "$title failed with exit status $?"
    echo "debian-trial: $title took $(($(now_ms) - begin_ms)) ms"
}

now_ms() {
    echo "$(($(date +%s%N) / 1000000))"
}

# Names, kinds, sizes and owners of all files but those in which apt, debconf and man keep lists of their own.
list_files() {
    find / -xdev \( -path /proc -o -path /sys -o -path /dev -o -path /run -o -path /tmp -o -path "$home" \
        -o -path /var/cache/apt -o -path /var/cache/debconf -o -path /var/cache/man -o -path /var/cache/ldconfig \
        -o -path /var/lib/apt -o -path /var/lib/dpkg -o -path /var/log -o -path /var/tmp -o -path /root \) -prune -o \
        ! -type d -printf '%y %m %u %s %p\n' -o -type d -printf '%y %m %u %p\n' | sort
}

# as_user SCRIPT   as a user without root, from a new folder and with nothing of this environment
as_user() {
    runuser -u trial -- env -i HOME="$home" PATH=/usr/local/bin:/usr/bin:/bin LANG=C.UTF-8 \
        sh -euc "cd \"\$HOME/use\" && $1"
}

begin_use() {
    rm -rf "$home/use"
    runuser -u trial -- mkdir -p "$home/use"
    find /usr/lib/ioassay | sort >"$lists/installed"
    [ "$(find /usr/lib/ioassay -name '*.pyc' | wc -l)" -gt 0 ] || fail 'nothing was compiled by the installation'
}

# No folder, variable or package of the user gets into the program, it needs no environment, and writes none of its own.
check_isolation() {
    # shellcheck disable=SC2016 # for the user's shell
    as_user 'echo "raise SystemExit(\"json of the user\")" >json.py
        PYTHONPATH=$PWD PYTHONSTARTUP=$PWD/json.py PYTHONHOME=/nonexistent ioassay plan quick --json >plan.json
        rm json.py'
    runuser -u trial -- env -i /usr/bin/ioassay --version >/dev/null || fail 'it needs HOME, PATH or TERM'
    (cd / && env -i /usr/bin/ioassay studies >/dev/null) || fail 'root without an environment cannot use it'
    find /usr/lib/ioassay | sort | diff "$lists/installed" - || fail 'its use changed the files above'
}

check_documents() {
    for page in ioassay ioassay-run; do
        [ -f "/usr/share/man/man1/$page.1.gz" ] || fail "there is no page $page of the manual"
        ! command -v man >/dev/null || as_user "man $page | grep -q NAME" || fail "man does not show $page"
    done
    # shellcheck disable=SC2016 # for the user's shell
    [ ! -f /usr/share/bash-completion/bash_completion ] || runuser -u trial -- bash -c '
        . /usr/share/bash-completion/bash_completion
        _comp_load ioassay 2>/dev/null || _completion_loader ioassay
        COMP_WORDS=(ioassay run block-s) COMP_CWORD=2 COMP_LINE="ioassay run block-s" COMP_POINT=19
        _ioassay_completion ioassay
        [ "${COMPREPLY[*]}" = block-size ]' || fail 'bash does not complete the name of a study'
}

main "$@"
