#!/bin/sh
# Compares the run of this checkout with its baseline: a page, a summary in Markdown, JUnit, and one word in `outcome`.
#
# IOASSAY_CI_BASELINE   the folder of an earlier run; by default the run `base` that measure.sh left, if there is one
# IOASSAY_CI_MARGIN     relative differences below this count as the same
# IOASSAY_CI_FAIL_ON    as of verdict.sh; with `any`, a loss of speed where the scatter from run to run is unknown counts
# IOASSAY_CI_OUTPUT     the folder of results, by default ioassay-ci
#
# The word is that of ioassay compare, or `failed` where trials failed, or `measured` where there is no baseline. Nothing
# of this is a failure here: verdict.sh decides. What cannot be compared at all ends with status 2.
set -eu

output=${IOASSAY_CI_OUTPUT:-ioassay-ci}
counts=known
case " $(printf %s "${IOASSAY_CI_FAIL_ON:-}" | tr -c 'a-z-' ' ') " in *" any "*) counts=any ;; esac
baseline=${IOASSAY_CI_BASELINE:-}
[ "$baseline" ] || [ ! -d "$output/base" ] || baseline=$output/base

# title WORD TEXT   the summary where there is no comparison
title() {
    printf '### ioassay: %s\n\n%s\n' "$1" "$2" >"$output/summary.markdown"
}

status=0
if [ -z "$baseline" ]; then
    title measured 'There is no baseline, so nothing is compared. The page of the run is among the artifacts.'
    outcome=measured
elif ioassay compare "--margin=${IOASSAY_CI_MARGIN:-5%}" "--fail-on=$counts" "--output=$output/page" "--junit=$output/junit.xml" \
    "--markdown=$output/summary.markdown" --json -- "$baseline" "$output/new" >"$output/comparison.json" || status=$?; then
    [ "$status" != 1 ] || : >"$output/regression"
    case $status in
    0 | 1 | 4)
        outcome=$(python3 -I -c 'import json, sys; print(json.load(sys.stdin)["outcome"])' <"$output/comparison.json")
        ;;
    *)
        # Where all trials of a side failed there is nothing to compare, and that is the news.
        [ -e "$output/failed" ] || exit "$status"
        outcome=failed
        title failed 'Nothing could be compared, because trials failed. The pages of the runs say why.'
        ;;
    esac
fi

[ ! -e "$output/contradicted" ] || outcome=contradicted
if [ -e "$output/failed" ]; then
    case $outcome in
    contradicted | slower) ;;
    *) outcome=failed ;;
    esac
fi
# note FILE TEXT   adds to the summary which runs are named in a file
note() {
    [ ! -e "$output/$1" ] ||
        printf '\n%s: %s. The pages of the runs say why.\n' "$2" "$(sort -u "$output/$1" | paste -s -d ' ' -)"
}
{
    note failed 'Trials failed in'
    note contradicted 'The kernel contradicts claims in'
} >>"$output/summary.markdown"
printf '%s\n' "$outcome" >"$output/outcome"
cat "$output/summary.markdown"
[ -z "${GITHUB_STEP_SUMMARY:-}" ] || cat "$output/summary.markdown" >>"$GITHUB_STEP_SUMMARY"
if [ "${GITHUB_OUTPUT:-}" ]; then
    printf 'outcome=%s\nsummary=%s\njunit=%s\n' "$outcome" "$output/summary.markdown" "$output/junit.xml" >>"$GITHUB_OUTPUT"
fi
