#!/bin/sh
# Adds the run of this checkout to a history, and what the history shows of its studies to the summary.
#
# IOASSAY_CI_HISTORY        a folder that stays from job to job, or the address of an object store; by default nothing is done
# IOASSAY_CI_HISTORY_HOST   one name for all machines of the jobs, where each job has a new one
# IOASSAY_CI_PULL_REQUEST   its number, if there is one: what is not merged is no history, and is not added
# IOASSAY_CI_OUTPUT         the folder of results, by default ioassay-ci
set -eu

[ "${IOASSAY_CI_HISTORY:-}" ] || exit 0
output=${IOASSAY_CI_OUTPUT:-ioassay-ci}
[ "${IOASSAY_CI_PULL_REQUEST:-}" ] ||
    ioassay history add "--to=$IOASSAY_CI_HISTORY" "--host=${IOASSAY_CI_HISTORY_HOST:-}" -- "$output/new"
ioassay runs --json -- "$output/new" |
    python3 -I -c 'import json, sys; print(*(one["study"] for run in json.load(sys.stdin)["runs"] for one in run["studies"]), sep="\n")' |
    while IFS= read -r study; do
        ioassay history show "--from=$IOASSAY_CI_HISTORY" "--page=$output/history-$study" \
            "--markdown=$output/trend.markdown" -- "$study"
        printf '\n' | cat - "$output/trend.markdown" >>"$output/summary.markdown"
        [ -z "${GITHUB_STEP_SUMMARY:-}" ] || printf '\n' | cat - "$output/trend.markdown" >>"$GITHUB_STEP_SUMMARY"
    done
