# shellcheck shell=sh disable=SC2154
# What the set-up says, and how it runs a command. Needs $log (setup.sh).

say() {
    printf 'ioassay: %s\n' "$*" >&2
}

fail() {
    say "$*"
    exit 1
}

# quietly COMMAND…   without standard input and with its output in the log. It inherits the lock (file descriptor
# 9), so that a pip that outlives a killed set-up still keeps the next one waiting.
quietly() {
    printf '\n$ %s\n' "$*" >>"$log"
    "$@" >>"$log" 2>&1 </dev/null
}

# step TITLE COMMAND…   says the title (and when it happens again: a set-up must not look like a habit), runs the command, ends the set-up with the end of the log where it fails
step() {
    title=$1
    shift
    say "$title"
    quietly "$@" || fail_with_log "$title"
}

fail_with_log() {
    say "failed: $1. The last lines of the log:"
    tail -n 15 "$log" | sed 's/^/    /' >&2
    fail "all of it is in $log. The next start goes on from here."
}

# version_is_at_least WANTED SEEN
version_is_at_least() {
    printf '%s\n%s\n' "$1" "$2" | sort -V -C
}
