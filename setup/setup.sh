#!/bin/sh
# setup.sh ROOT run|check|wheel: makes the checkout at ROOT ready for ./ioassay, for ./check, or, after that, for the tests
# of its wheel and of its package.
#
# Each step looks whether it has anything to do, so that a set-up that was interrupted goes on where it stopped.
# One line per step goes to stderr, everything the tools say to ROOT/.setup/setup.log. It installs Debian packages
# that are missing, and apart from them writes nothing outside ROOT but the caches of pip and cargo.
set -eu

root=$1
goal=$2
state=$root/.setup
log=$state/setup.log
cd "$root"

# shellcheck source=setup/say.sh
. "$root/setup/say.sh"
# shellcheck source=setup/packages.sh
. "$root/setup/packages.sh"
# shellcheck source=setup/rust.sh
. "$root/setup/rust.sh"
# shellcheck source=setup/python.sh
. "$root/setup/python.sh"
# shellcheck source=setup/ready.sh
. "$root/setup/ready.sh"

main() {
    take_lock
    if [ "$goal" = wheel ]; then
        : >"$log"
        fetch_wheelhouse
        [ -z "${IOASSAY_THOROUGH:-}" ] || fetch_debian
        return
    fi
    ready "$root" "$goal" && return # somebody else did it while we waited
    : >"$log"
    # The stamp is as old as the beginning of the work: what is edited meanwhile is newer and is built next time.
    printf '%s\n' "$root" >"$state/$goal.new"

    install_packages "$goal"
    find_rust "$goal"
    find_python
    make_venv
    install_python_packages "$goal"
    fetch_guest_kernel "$goal"
    build_core
    note_env

    [ "$goal" = run ] || cp -p "$state/$goal.new" "$state/run"
    mv "$state/$goal.new" "$state/$goal"
}

# An env that cannot block signals (GNU's can since coreutils 8.31) is left out by the launcher.
note_env() {
    rm -f "$state/no-signal-block"
    env --block-signal=TERM true 2>/dev/null || true >"$state/no-signal-block"
}

# Two first uses at once: the second waits for the first. The lock ends with this process, however it ends.
take_lock() {
    [ "$(uname -s)" = Linux ] || fail "this is $(uname -s), and ioassay measures Linux: use a Linux machine"
    { mkdir -p "$state" && true >>"$state/lock"; } 2>/dev/null ||
        fail "cannot write to $state as $(id -un): run as the owner of the checkout, or give it to yourself" \
            "with: sudo chown -R $(id -un) '$root'"
    exec 9>"$state/lock"
    flock --nonblock 9 && return
    say "another set-up of this checkout is running; waiting for it"
    flock 9
}

trap 'say "interrupted; the next start goes on from here"; exit 130' INT TERM HUP
main
