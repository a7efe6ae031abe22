# shellcheck shell=sh
# Is the set-up of a checkout complete and newer than all that it was made from? Sourced by `ioassay` and `check`.
#
# It is asked at every start, so it starts one process only (find). It errs on the side of "no": setup.sh then
# compares contents, does nothing where nothing changed, and is quick about it.

set_up_from='crates setup Cargo.toml Cargo.lock pyproject.toml constraints.txt'

# ready ROOT GOAL   true when .setup/GOAL says so; GOAL is `run` (./ioassay) or `check` (./check)
ready() {
    # The stamp holds the path it was made at: a virtual environment does not survive being moved.
    [ -f "$1/.setup/$2" ] && IFS= read -r ready_at <"$1/.setup/$2" && [ "$ready_at" = "$1" ] || return 1
    [ -x "$1/.venv/bin/python" ] && command -v fio >/dev/null || return 1
    # Built without clang, which is there now.
    { [ ! -e "$1/.setup/no-clang" ] || ! command -v clang >/dev/null; } || return 1
    set -- "$1" "$2" "$1"/python/ioassay/_core*.so
    [ -e "$3" ] || return 1
    # Folders count too: a file that was removed leaves its folder newer.
    # shellcheck disable=SC2086 # words
    [ -z "$(cd "$1" && find $set_up_from -newer ".setup/$2" -print -quit 2>&1)" ]
}

# ready_but_for ROOT GOAL FILES   true where what is newer is among FILES, one a line, and these are all below crates/
ready_but_for() {
    [ -f "$1/.setup/$2" ] && ! printf '%s\n' "$3" | grep -qv '^crates/' || return 1
    # shellcheck disable=SC2086 # words
    ! (cd "$1" && find $set_up_from -type f -newer ".setup/$2") | grep -qvxF "$3"
}
