#!/bin/sh
# Measures a study in this checkout and, in turns with it, in a checkout of the base: one randomised block each, so that
# a drift of the machine hits both alike. Both runs are of this checkout's study.
#
# IOASSAY_CI_STUDY        a built-in study, a .toml study or a .fio job file
# IOASSAY_CI_BASE_REF     the commit or branch to measure in turns; by default only this checkout is measured
# IOASSAY_CI_BASELINE     the folder of an earlier run, which takes the place of the base: nothing but this checkout is measured
# IOASSAY_CI_BUILD        a shell command that builds each of the two checkouts
# IOASSAY_CI_SCALE, IOASSAY_CI_REPETITIONS, IOASSAY_CI_WAIT_QUIET    as the options of ioassay run
# IOASSAY_CI_SETTINGS     KEY=VALUE, one a line, each as --set of ioassay run
# IOASSAY_CI_ALLOW_EXEC   true: as --allow-exec
# IOASSAY_CI_OUTPUT       the folder of results, by default ioassay-ci: the runs `base` and `new`
#
# Trials that failed and claims that the kernel contradicts are noted in the files `failed` and `contradicted` of that
# folder, and end nothing here: verdict.sh does. What cannot be run at all ends with the exit status of ioassay run.
set -eu

fail() {
    echo "ioassay: $1" >&2
    exit 2
}

study=${IOASSAY_CI_STUDY:-}
[ "$study" ] || fail "no study given; expected a name from 'ioassay studies', a .toml study or a .fio file (input 'study')"
[ ! -f "$study" ] || study=$(realpath -- "$study")
repetitions=${IOASSAY_CI_REPETITIONS:-10}
case $repetitions in
'' | 0* | *[!0-9]*) fail "repetitions is '$repetitions'; expected a whole number of at least 2 (input 'repetitions')" ;;
esac
mkdir -p -- "${IOASSAY_CI_OUTPUT:-ioassay-ci}"
output=$(cd -- "${IOASSAY_CI_OUTPUT:-ioassay-ci}" && pwd -P)
base_ref=
[ "${IOASSAY_CI_BASELINE:-}" ] || base_ref=${IOASSAY_CI_BASE_REF:-}
base=$output-base # on the file system of this checkout, since that is measured

# check_out_base   puts the base into a work tree of its own
check_out_base() {
    case $base_ref in
    -*) fail "the base '$base_ref' is no commit or branch (input 'base-ref')" ;;
    esac
    commit=$(git rev-parse --quiet --verify "origin/$base_ref^{commit}") ||
        commit=$(git rev-parse --quiet --verify "$base_ref^{commit}") ||
        { git fetch --quiet --depth 1 origin "$base_ref" && commit=$(git rev-parse FETCH_HEAD); } ||
        fail "the base '$base_ref' is no commit or branch here, and origin has none of that name (input 'base-ref')"
    [ -e "$base" ] || git worktree add --quiet --detach "$base" "$commit"
}

# build CHECKOUT
build() {
    [ "${IOASSAY_CI_BUILD:-}" ] || return 0
    (cd -- "$1" && sh -eu -c "$IOASSAY_CI_BUILD") || fail "the build of $1 failed (input 'build')"
}

# measure RUN CHECKOUT BLOCKS   the first BLOCKS blocks of a run, of which those before may be there
measure() {
    run=$output/$1 checkout=$2 blocks=$3
    set -- "--blocks=$blocks"
    [ "${IOASSAY_CI_ALLOW_EXEC:-false}" != true ] || set -- "$@" --allow-exec
    [ -z "${IOASSAY_CI_WAIT_QUIET:-}" ] || set -- "$@" "--wait-quiet=$IOASSAY_CI_WAIT_QUIET"
    if [ -e "$run" ]; then
        set -- "$@" "--resume=$run"
    else
        set -- "$@" "--output=$run" "--scale=${IOASSAY_CI_SCALE:-full}" "--repetitions=$repetitions"
        while IFS= read -r setting; do
            [ -z "$setting" ] || set -- "$@" "--set=$setting"
        done <<END
${IOASSAY_CI_SETTINGS:-}
END
        set -- "$@" -- "$study"
    fi
    status=0
    (cd -- "$checkout" && ioassay run "$@") || status=$?
    case $status in
    0) ;;
    1) echo "${run##*/}" >>"$output/failed" ;;
    4) echo "${run##*/}" >>"$output/contradicted" ;;
    *) exit "$status" ;;
    esac
}

new=$PWD
rm -f "$output/failed" "$output/contradicted" "$output/regression"
if [ -z "$base_ref" ]; then
    build "$new"
    measure new "$new" "$repetitions"
    exit
fi
check_out_base
trap 'git worktree remove --force "$base"' EXIT
build "$base"
build "$new"
block=1
while [ "$block" -le "$repetitions" ]; do
    # The order alternates, so that neither side is always the one that follows the other.
    if [ $((block % 2)) -eq 1 ]; then
        measure base "$base" "$block"
        measure new "$new" "$block"
    else
        measure new "$new" "$block"
        measure base "$base" "$block"
    fi
    block=$((block + 1))
done
